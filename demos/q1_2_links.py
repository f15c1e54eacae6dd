"""Q1-2: packets of three links for every minute, where one link is nearly silent and one is twenty seconds behind."""

import oop_engine as oop

SECOND = 1_000_000_000
control = oop.packets(60, rate=0.2, link="Control", seed=1)
main1 = oop.packets(150_000, rate=500, link="Main1", seed=2)
main2 = oop.packets(150_000, rate=500, link="Main2", seed=3, skew=20 * SECOND)

for union in (oop.meld, oop.merge):
    counts = union(control, main1, main2).window(range="1 minute", wattr="ts").aggregate(oop.count()).run()
    print(f"{union.__name__}: held at most {counts.statistics.peak_state:,} tuples or counts")
    for row in counts.table.to_pylist():
        print(f"  [{row['window_start']:%H:%M}, {row['window_end']:%H:%M})  {row['count']:>7,}")

print("""
Meld passes every packet on at once and promises only what all three links have promised; the count needs no order.
Merge gives the same answer but holds back what the slowest link might still precede: the skew times the rate.""")
