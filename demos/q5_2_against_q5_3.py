"""Q5-2 against Q5-3: a partition counts its own rows, a group takes what falls into everybody's window."""

import pyarrow as pa

import oop_engine as oop

schema = pa.schema([pa.field("srcIP", pa.string()), pa.field("length", pa.int64())])
arriving = [("a", 900), ("b", 100), ("a", 300), ("a", 200), ("b", 700), ("a", 100), ("a", 400), ("b", 500)]
print("Arriving:", ", ".join(f"{source}:{length}" for source, length in arriving), "\n")

queries = {
    "Q5-2, the past 4 packets of each source, every 2 of its packets": (
        "SELECT srcIP, max(length) [RANGE 4 rows, SLIDE 2 rows, WA row-num, PA srcIP] FROM Main"
    ),
    "Q5-3, each source's part of the past 4 packets, every 2 packets": (
        "SELECT srcIP, max(length) [RANGE 4 rows, SLIDE 2 rows, WA row-num] FROM Main GROUP-BY srcIP"
    ),
}
for title, text in queries.items():
    print(f"{title}:\n  {text}")
    result = oop.query(text, Main=oop.rows(arriving, schema)).run()
    for row in sorted(result.table.to_pylist(), key=lambda r: (r["srcIP"], r["wid"])):
        begin = max(row["window_start"], 0)
        print(f"    {row['srcIP']}: rows {begin} to {row['window_end'] - 1}: longest {row['max_length']}")
    print()
print("In Q5-2 the rows are a source's own, so each source keeps its past 4; in Q5-3 they are those of the whole")
print("stream, so a quiet source may have none in a window. The 900 leaves a's window after a's fourth packet more.")
