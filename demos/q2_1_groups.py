"""Q2-1: a plain group-by over an endless stream, unblocked by punctuation on one of its grouping attributes."""

import pyarrow as pa

import oop_engine as oop
from punctuation import before

schema = oop.Schema(pa.schema([oop.ip_field("srcIP"), pa.field("ts", pa.int64())]), progress=["ts"])


def packets():
    """The ts attribute is in minutes, as in the thesis; promises stand between the tuples."""
    yield from [("202.101.0.0", 0), ("202.101.0.1", 0), ("10.9.8.7", 1), ("202.101.0.0", 1)]
    yield ("202.101.0.0", 0)
    print("  -- [ts < 1]: minute 0 is over")
    yield before("ts", 1)
    yield from [("202.101.0.1", 2), ("202.101.0.0", 1)]
    print("  -- [ts < 3]: minutes 1 and 2 are over")
    yield before("ts", 3)


text = """SELECT srcIP, ts, count (*)
FROM Main1
WHERE srcIP = "202.101.0.0" or srcIP = "202.101.0.1"
GROUP BY srcIP, ts"""
print(text, "\n")
for page in oop.query(text, Main1=oop.rows(packets(), schema)):
    for row in page.rows():
        print(f"  {row['srcIP']}, minute {row['ts']}: {row['count']}")
print("\nEach group left at the promise that ended it, and its state with it; no window was needed.")
