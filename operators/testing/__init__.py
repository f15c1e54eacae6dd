"""The conformance kit for operators: scripts of grammatical streams, and the laws that every operator keeps.

from hypothesis import given
from operators.testing import check_operator, streams

@given(streams(Schema.of(ts=pa.int64(), k=pa.string(), x=pa.int32(), progress=["ts"])))
def test_my_operator_keeps_the_laws(script):
    check_operator(lambda: MyOperator(...), script, naive=my_naive_answer)
"""

from operators.testing.laws import ALL_LAWS, LAWS, check_operator
from operators.testing.script import Script
from operators.testing.streams import streams

__all__ = ["ALL_LAWS", "LAWS", "Script", "check_operator", "streams"]
