"""Q1-1: packets from each source in the past ten minutes, updated every minute, from packets out of order."""

import oop_engine as oop

SECOND = 1_000_000_000
packets = oop.packets(120_000, rate=100, sources=50, disorder=oop.Band(90 * SECOND), late_share=0.3, link="M", seed=7)

text = "SELECT srcIP, count(*) [RANGE 10 minutes, SLIDE 1 minute, WA ts] FROM M GROUP BY srcIP"
print("As text:   ", text)
result = oop.query(text, M=packets).run()

print("In Python:  packets.window(range='10 minutes', slide='1 minute', wattr='ts').aggregate(oop.count(), by='srcIP')")
same = packets.window(range="10 minutes", slide="1 minute", wattr="ts").aggregate(oop.count(), by="srcIP").run()

order = [("wid", "ascending"), ("count", "descending"), ("srcIP", "ascending")]
rows = result.table.sort_by(order)
assert rows.equals(same.table.sort_by(order))

print("\nThe window that ends at 10:15 and its five loudest sources:")
for row in [r for r in rows.to_pylist() if f"{r['window_end']:%H:%M}" == "10:15"][:5]:
    print(f"  {row['srcIP']:<15} {row['count']:>6,}  [{row['window_start']:%H:%M}, {row['window_end']:%H:%M})")

statistics = result.statistics
print(
    f"\n{statistics.tuples:,} tuples, 30 % of them up to 90 s late; {statistics.late} missed their window, because the"
)
print(f"file was read ahead once and promised exactly. {statistics.windows} windows were released; at most")
print(f"{statistics.peak_state:,} partial counts were held, and never a tuple.")
