"""Coverage-guided fuzzing of the capture readers: any bytes give packets and notes, or are refused as no capture.

    python tests/fuzz/fuzz_captures.py -max_total_time=300

As `fuzz_flows.py` does it; an input is a whole file, pcap or pcapng, plain or packed.
"""

from __future__ import annotations

import io
import os
import sys
import tempfile
from contextlib import nullcontext
from pathlib import Path

COMPILED = "--compiled" in sys.argv
if not COMPILED:
    os.environ["NUMBA_DISABLE_JIT"] = "1"
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import atheris  # noqa: E402

with nullcontext() if COMPILED else atheris.instrument_imports(include=["oop_engine.sources"]):
    from oop_engine.sources.capture import Capture, DecodeError

from tests.capture_files import WHOLE, ether, ipv4, ipv6, pcap, tag, tcp, udp  # noqa: E402

LAYERS = [
    ether(ipv4(tcp(), 6)), ether(ipv4(udp(b"x"), 17)), ether(ipv6(tcp(), 6), 0x86DD), ether(ipv6(bytes(8) + udp(), 0)),
    ether(tag(0x8100, 5) + b"\x08\x00" + ipv4(tcp(), 6), 0x8100),
]  # fmt: skip


def seeds() -> list[bytes]:
    """Give small captures of every format, and one a link type and layer."""
    frames = [(1_700_000_000_000_000_000 + k, frame) for k, frame in enumerate(LAYERS)]
    links = (1, 0, 101, 105, 108, 113, 127, 239, 276, 228, 229, 9)
    return [*WHOLE.values(), *(pcap(frames, link=link) for link in links)]


def one_input(data: bytes) -> None:
    """Read an input twice, at once and in small batches; the packets are the same, and no more than there is room."""
    try:
        whole = Capture(io.BytesIO(data))
        batches = list(whole.batches())
    except DecodeError:
        return
    for batch in batches:
        batch.validate(full=True)
    packets = sum(map(len, batches))
    assert packets == whole.counts["packets"]
    small = Capture(io.BytesIO(data), batch_rows=3)
    found = list(small.batches())
    assert all(len(batch) <= 3 for batch in found) and sum(map(len, found)) == packets
    assert small.notes == whole.notes


def main() -> None:
    arguments = [a for a in sys.argv if a != "--compiled"]
    if all(argument.startswith("-") for argument in arguments[1:]):
        arguments.append(tempfile.mkdtemp(prefix="fuzz_captures_"))
    corpus = Path(next(argument for argument in arguments[1:] if not argument.startswith("-")))
    if corpus.is_dir():
        for number, seed in enumerate(seeds()):
            (corpus / f"seed{number}").write_bytes(seed)
    atheris.Setup([*arguments[:1], "-max_len=2048", "-rss_limit_mb=2048", "-timeout=30", *arguments[1:]], one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
