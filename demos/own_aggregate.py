"""An aggregate of one's own, in plain Python and compiled: how evenly a server's packets are sized (Jain's index)."""

import pyarrow as pa

import oop_engine as oop

fairness = oop.user_aggregate(
    "fairness",
    lift=lambda x: (1, x, x * x),
    combine=lambda a, b: (a[0] + b[0], a[1] + b[1], a[2] + b[2]),
    lower=lambda s: s[1] * s[1] / (s[0] * s[2]),
    invert=lambda a, b: (a[0] - b[0], a[1] - b[1], a[2] - b[2]),
    identity=(0, 0, 0),
    arguments="length",
    output=pa.float64(),
)
packets = oop.pcap("demos/captures/web.pcap.gz").filter("srcPort = 80")
windows = packets.window(range="20 s", slide="5 s").aggregate(fairness, oop.count(), by="srcIP")
for row in sorted(windows.to_arrow().to_pylist(), key=lambda r: (r["fairness_length"], r["wid"]))[:5]:
    text = f"{row['count']:5} packets, fairness {row['fairness_length']:.2f}"
    print(f"{row['window_start']:%H:%M:%S}  {row['srcIP']:15} {text}")

print("""
1 is all packets of one size, less is less even. lift, combine, lower and invert were tried for their laws when the
types were known, then compiled; invert lets a sliding window take away what leaves it.""")
