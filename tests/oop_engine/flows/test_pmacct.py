"""nfacctd of pmacct counts the same bytes and packets of each exporter, from the same capture."""

from __future__ import annotations

import csv
import gzip
import shutil
import subprocess
from pathlib import Path

import pytest

import oop_engine as oop

NFACCTD = shutil.which("nfacctd") or "/usr/sbin/nfacctd"
EXPORTS = Path("demos/captures/exports.pcap.gz")


@pytest.mark.slow
@pytest.mark.skipif(not Path(NFACCTD).is_file(), reason="needs nfacctd (Debian package pmacct)")
def test_bytes_and_packets_of_each_exporter_are_those_of_pmacct(tmp_path: Path) -> None:
    (tmp_path / "exports.pcap").write_bytes(gzip.decompress(EXPORTS.read_bytes()))
    # Each refresh begins the file anew; the last one comes at the end of the capture.
    settings = {
        "daemonize": "false", "pcap_savefile": tmp_path / "exports.pcap", "plugins": "print", "print_output": "csv",
        "aggregate": "peer_src_ip, proto", "print_output_file": tmp_path / "out.csv", "print_refresh_time": 3600,
    }  # fmt: skip
    (tmp_path / "nfacctd.conf").write_text("".join(f"{name}: {value}\n" for name, value in settings.items()))
    subprocess.run([NFACCTD, "-f", str(tmp_path / "nfacctd.conf")], check=True, capture_output=True, timeout=60)
    with open(tmp_path / "out.csv", newline="") as file:
        theirs = {
            (row["PEER_SRC_IP"], row["PROTOCOL"]): (int(row["BYTES"]), int(row["PACKETS"]))
            for row in csv.DictReader(file)
        }
    sums = oop.netflow(EXPORTS).aggregate(oop.sum("bytes"), oop.sum("packets"), by=["exporter", "proto"])
    names = {1: "icmp", 6: "tcp", 17: "udp"}
    ours = {
        (row["exporter"], names[row["proto"]]): (row["sum_bytes"], row["sum_packets"])
        for row in sums.to_arrow().to_pylist()
    }
    assert len(ours) > 3 and ours == theirs
