"""Ready queries: questions that people ask of packets and flows, each a function of a stream that gives a stream.

    for page in oop.queries.syn_flood(oop.pcap("capture.pcap")):
        print(page)

They are assembled from the engine's own operators and need no more than what the docstrings name; thresholds are
arguments. Packets and flow records do alike: flows count the packets and bytes they stand for, times their sampling.
Results come as windows are released, whatever the order in which tuples arrive.
"""

from oop_engine.queries.beaconing import beaconing
from oop_engine.queries.dns_amplification import dns_amplification
from oop_engine.queries.exporter_health import exporter_health
from oop_engine.queries.horizontal_scan import horizontal_scan
from oop_engine.queries.syn_flood import syn_flood
from oop_engine.queries.top_talkers import top_talkers
from oop_engine.queries.vertical_scan import vertical_scan

__all__ = [
    "beaconing",
    "dns_amplification",
    "exporter_health",
    "horizontal_scan",
    "syn_flood",
    "top_talkers",
    "vertical_scan",
]
