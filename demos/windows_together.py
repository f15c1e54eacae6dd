"""Several windows on one stream share their slices: a second, half a minute every ten seconds, and sessions."""

import oop_engine as oop

packets = oop.pcap("demos/captures/web.pcap.gz").filter("srcPort = 80")
together = packets.windows(
    second=oop.tumbling("1 s"),
    half_minute=oop.sliding("30 s", "10 s"),
    talk=oop.session("500 ms"),
)
results = together.aggregate(oop.count(), oop.sum("length"), by="srcIP").run()

table = results.table.to_pandas()
for name, some in table.groupby("window"):
    longest = (some["window_end"] - some["window_start"]).max()
    print(f"{name:12} {len(some):5} results, the busiest {some['count'].max():5} packets, the longest {longest}")

slicing = results.statistics.operators[-1]
print(f"""
{slicing.tuples_in:,} packets, each added to one slice of its server whatever the number of windows;
at most {slicing.details["peak_state_tuples"]:,} partial aggregates were held, and no packet.""")
