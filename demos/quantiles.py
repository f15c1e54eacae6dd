"""Quantiles of packet sizes over sliding windows: exact from sorted runs, and by a sketch of fixed size."""

import oop_engine as oop

packets = oop.pcap("demos/captures/web.pcap.gz")
query = """
    SELECT median(len) AS middle, quantile(len, 0.9) AS p90, mode(len) AS usual, count(*)
    [RANGE 1 minute, SLIDE 20 s, WA ts] FROM Main
"""
exact = oop.query(query, Main=packets)
for row in exact.to_arrow().to_pylist()[:6]:
    print(
        f"{row['window_start']:%H:%M:%S}  median {row['middle']:6}  90 % below {row['p90']:6}  "
        f"most often {row['usual']:6}  of {row['count']:,}"
    )
print("""
A slice keeps its values as sorted runs of (value, how often), shared by the windows that it is in and by the three
functions; nothing is sorted twice. approx_quantile(len, 0.9) keeps a sketch of a few hundred numbers instead.""")
