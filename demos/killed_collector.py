"""What does a collector lose that is killed? One listens to an exporter, is killed (-9), and is started again."""

import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pyarrow.parquet as pq

with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
    free.bind(("127.0.0.1", 0))
    PLACE = free.getsockname()
QUERY = "SELECT exporter, count(*) AS records [RANGE 5 seconds, WA ts] FROM Flows GROUP BY exporter"
COLLECT = [sys.executable, "-m", "oop_engine", "collect", "--netflow", f"127.0.0.1:{PLACE[1]}", "--query", QUERY]
KEPT = ["--to", "out.parquet", "--checkpoint", "job", "--checkpoint-every", "1h", "--journal"]
RECORDS = 30 * struct.pack(">4s4s4sHHIIIIHHBBBBHHBBH", *[bytes(4)] * 3, 1, 2, 9, 1000, 0, 0, 80, 443, *[0] * 9)
sent = 0
with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as exporter:
    for start, end in enumerate((signal.SIGKILL, signal.SIGTERM, None), 1):
        more = [] if end else ["--for", "1s"]
        collector = subprocess.Popen([*COLLECT, *KEPT, *more], cwd=folder, stderr=subprocess.PIPE, text=True)
        said = next(line for line in iter(collector.stderr.readline, "") if "listening" in line)
        print(f"start {start}: {said.split()[0]}")
        for _ in range(100 if end else 0):
            head = struct.pack(">HHIIIIHH", 5, 30, 1_000_000, int(time.time()), 0, sent, 0, 0)
            exporter.sendto(head + RECORDS, PLACE)
            sent += 30
        while end is signal.SIGKILL and sum(s.stat().st_size for s in Path(folder).rglob("*.segment")) < 48 * sent:
            time.sleep(0.01)  # until the journal has all of it
        if end:
            collector.send_signal(end)
        collector.communicate()
        print(f"{sent:,} records sent so far; ended with {collector.returncode}")
    table = pq.read_table(Path(folder, "out.parquet"))
windows = table.group_by(["exporter", "window_start"]).aggregate([]).num_rows
print(f"{sum(table['records'].to_pylist()):,} records in the results; no window twice: {windows == table.num_rows}")
