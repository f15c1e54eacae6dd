"""A schema promises nothing that it has not."""

from __future__ import annotations

import pyarrow as pa
import pytest

from operators.data.schema import Schema, is_ip
from operators.errors import SchemaError


@pytest.mark.parametrize("progress", [["t"], [("k", "t")], [{"ts"}, {"t"}]])
def test_a_promise_on_an_attribute_that_is_not_there_is_refused(progress: list[str]) -> None:
    with pytest.raises(
        SchemaError, match=r'progress names "t", and the stream has no such attribute\.\n  Did you mean "ts"'
    ):
        Schema.of(progress=progress, ts=pa.int64(), k=pa.string())
    with pytest.raises(SchemaError, match='progress names "t"'):
        Schema.of(ts=pa.int64(), k=pa.string()).with_progress(progress)


def test_promises_are_sets_of_attributes() -> None:
    schema = Schema.of(progress=["ts", ("k", "ts")], ts=pa.int64(), k=pa.string())
    assert schema.progress == {frozenset({"ts"}), frozenset({"ts", "k"})}
    assert schema.progressing("ts") and not schema.progressing("k")


def test_a_type_is_one_of_arrows_or_that_of_addresses() -> None:
    schema = Schema.of(ip="ip", n="int64", ts=pa.int64())
    assert is_ip(schema.field("ip")) and schema.field("n").type == pa.int64()
    for kind in ("adress", int, None):
        with pytest.raises(SchemaError, match=r'no type for "x"\.\n  Write an Arrow type, [^$]* or "ip" for addresses'):
            Schema.of(x=kind)  # type: ignore[arg-type]
