"""Ready queries: questions that people ask of packets and flows, each a function from stream to stream.

    for page in oop.queries.syn_flood(oop.pcap("capture.pcap")):
        print(page)

They are built of the engine's own operators and need the attributes that their docstrings name; thresholds are
parameters. A flow record counts the packets and bytes it stands for, times its sampling. Results come as windows are
released, whatever the order of arrival.
"""

from oop_engine.queries.beaconing import beaconing
from oop_engine.queries.dns_amplification import dns_amplification
from oop_engine.queries.exporter_health import exporter_health
from oop_engine.queries.horizontal_scan import horizontal_scan
from oop_engine.queries.rates import rates
from oop_engine.queries.syn_flood import syn_flood
from oop_engine.queries.top_talkers import top_talkers
from oop_engine.queries.vertical_scan import vertical_scan

__all__ = [
    "beaconing",
    "dns_amplification",
    "exporter_health",
    "horizontal_scan",
    "rates",
    "syn_flood",
    "top_talkers",
    "vertical_scan",
]
