"""Coverage-guided fuzzing of the flow parsers: any datagrams give well-formed records, each counted, or a reason.

    python tests/fuzz/fuzz_flows.py -max_total_time=300

Needs atheris. Kernels run interpreted, so that their branches guide the search and an index out of range is an error;
`--compiled` runs them as they are, without guidance: give it the corpus that a run before has found. Further arguments
are libFuzzer's; the corpus begins with what the tests' exporters write, in a folder of its own unless one is given. An
input is datagrams, each behind two bytes of length.
"""

from __future__ import annotations

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
    from oop_engine.sources.flows import Datagrams, FlowDecoder, flow_columns

from tests.oop_engine.flows.exporter import HERE, NOW, SECOND  # noqa: E402
from tests.oop_engine.flows.test_flow_totality import MORE, VALID  # noqa: E402

COLUMNS = flow_columns(MORE)


def seeds() -> list[bytes]:
    """Give what exporters write: each datagram, and all of them."""
    framed = [len(payload).to_bytes(2, "big") + payload for payload in VALID]
    return [*framed, b"".join(framed)]


def datagrams(data: bytes) -> list[bytes]:
    """Cut an input into at most 32 datagrams."""
    found: list[bytes] = []
    while len(data) >= 2 and len(found) < 32:
        size = int.from_bytes(data[:2], "big")
        found.append(data[2 : 2 + size])
        data = data[2 + size :]
    return found


def one_input(data: bytes) -> None:
    """Decode an input; AssertionError, or whatever the decoder raises, is a fault."""
    payloads = datagrams(data)
    decoder = FlowDecoder(available=COLUMNS, reliable=len(data) % 2 == 1, batch_rows=(1, 7, 65_536)[len(data) % 3])
    times = [NOW * SECOND + k for k in range(len(payloads))]
    rows = 0
    for batch in decoder.decode(Datagrams.of(payloads, arrival=times, exporters=[HERE] * len(payloads))):
        batch.validate(full=True)
        rows += len(batch)
    decoder.finish()
    told = decoder.exporters()
    assert sum(one.records for one in told) == rows <= 2000 * len(payloads)
    assert sum(one.datagrams for one in told) == len(payloads)
    assert all(one.held == 0 for one in told)
    assert all(0 <= count < 2**40 for one in told for count in (one.lost, one.reordered, one.duplicated, one.untimed))


def main() -> None:
    arguments = [a for a in sys.argv if a != "--compiled"]
    if all(argument.startswith("-") for argument in arguments[1:]):
        arguments.append(tempfile.mkdtemp(prefix="fuzz_flows_"))
    corpus = Path(next(argument for argument in arguments[1:] if not argument.startswith("-")))
    if corpus.is_dir():
        for number, seed in enumerate(seeds()):
            (corpus / f"seed{number}").write_bytes(seed)
    atheris.Setup([*arguments[:1], "-max_len=4096", "-rss_limit_mb=2048", "-timeout=30", *arguments[1:]], one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
