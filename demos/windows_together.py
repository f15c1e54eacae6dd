"""Several windows on one stream share their slices: a second, half a minute every ten seconds, and sessions."""

import pyarrow.compute as pc

import oop_engine as oop

packets = oop.pcap("demos/captures/web.pcap.gz").filter("srcPort = 80")
together = packets.windows(
    second=oop.tumbling("1 s"),
    half_minute=oop.sliding("30 s", "10 s"),
    talk=oop.session("500 ms"),
)
results = together.aggregate(oop.count(), oop.sum("length"), by="srcIP").run()

table = results.table
table = table.append_column("ns", pc.subtract(table["window_end"], table["window_start"]).cast("int64"))
summary = table.group_by("window").aggregate([("count", "count"), ("count", "max"), ("ns", "max")])
for some in summary.sort_by("window").to_pylist():
    print(
        f"{some['window']:12} {some['count_count']:5} results, the busiest {some['count_max']:5} packets,"
        f" the longest {some['ns_max'] / 1e9:.3f} s"
    )

slicing = results.statistics.operators[-1]
print(f"""
{slicing.tuples_in:,} packets, each added to one slice of its server whatever the number of windows;
at most {slicing.details["peak_state_tuples"]:,} partial aggregates were held, and no packet.""")
