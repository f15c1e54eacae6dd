"""What is wrong with my export clocks: three routers' flow records, one clock behind, one ahead, one block-sorted."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import oop_engine as oop

SECOND, START, TIME = 1_000_000_000, 1_795_255_200_000_000_000, pa.timestamp("ns", "UTC")
random = np.random.default_rng(1)
parts = []
for name, flows, skew, purge in (("core", 20_000, 0, 0), ("edge", 8_000, -4, 0), ("dc", 12_000, 9, 60)):
    start = np.sort(random.integers(0, 600 * SECOND, flows))
    end = start + random.exponential(3 * SECOND, flows).astype(np.int64).clip(0, 30 * SECOND)
    # A router looks through its cache every ten seconds; "dc" purges all of it once a minute (Fig 6-9).
    sent = (start // (60 * SECOND) + 1) * 60 * SECOND if purge else (end // (10 * SECOND) + 2) * 10 * SECOND
    end = np.minimum(end, sent)
    sent = sent + random.integers(0, SECOND // 2, flows)
    times = {"ts": start, "end_ts": end, "export_ts": sent}
    columns = {label: pa.array(START + t + skew * SECOND).view(TIME) for label, t in times.items()}
    columns |= {"arrival_ts": pa.array(START + sent).view(TIME), "bytes": pa.array(random.integers(40, 9000, flows))}
    columns |= {"exporter": pa.array([name] * flows), "domain": pa.array(np.zeros(flows, np.int64))}
    parts.append(pa.table(columns).append_column("packets", pa.array(random.integers(1, 9, flows))))
records = pa.concat_tables(parts).sort_by("arrival_ts")

report = oop.disorder(oop.arrow(records, name="exports"), on="ts")
print(report, "\n")

for row in oop.queries.exporter_health(oop.arrow(records), range="10 minutes").run().table.to_pylist()[:3]:
    clock, oldest, waited = (row[name].total_seconds() for name in ("clock", "oldest", "waited"))
    wrong = "OFF" if row["off"] else "right"
    print(f"{row['exporter']:<5} clock {clock:+5.1f} s, {wrong}; flows up to {oldest:.0f} s old, waited {waited:.0f} s")

found = [report.of("ts", exporter) for exporter in ("core", "edge", "dc")]
own = [oop.arrow(records.filter(pc.field("exporter") == f.group), slack=f.amount(f.slack)) for f in found]
for title, union in (("each its own slack", oop.meld(*own)), ("27 s for all", oop.arrow(records, slack="27 s"))):
    run = union.window(range="10 s", wattr="ts", consistent=True).aggregate(oop.count()).run()
    print(f"{title}: {sum(run.table.column('count').to_pylist()):,} records counted, {run.statistics.late:,} late")
