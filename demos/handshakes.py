"""Handshakes in a real capture: SYN joined with its SYN-ACK, and by the anti form the SYNs that got no answer."""

import oop_engine as oop

SYN, ACK = 2, 16
REVERSED = {"srcIP": "destIP", "destIP": "srcIP", "srcPort": "destPort", "destPort": "srcPort"}
packets = oop.pcap("demos/captures/web.pcap.gz")
syn = packets.filter(lambda p: p["flags"] == SYN)
syn_ack = packets.filter(lambda p: p["flags"] == SYN + ACK)

# A SYN stays for 3 seconds, a SYN-ACK for none: it comes at the SYN's time or later, and is in another direction.
opened = syn.join(syn_ack, REVERSED, range=("3 s", 0), closed=True, prefix="answer_")
print(opened.project("ts", "answer_ts", "srcIP", "destIP").explain(), "\n")

answers = opened.run()
waited = sorted((row["answer_ts"] - row["ts"]).value / 1e6 for row in answers.table.to_pylist())
held = answers.statistics.operators[-1].details["peak_state_tuples"]
print(f"{len(waited)} answers: median {waited[len(waited) // 2]:.1f} ms, slowest {waited[-1]:.1f} ms;")
print(f"of {answers.statistics.tuples:,} packets the join held {held} at most.\n")

for patience in ("3 s", "200 ms"):
    half_open = syn.join(syn_ack, REVERSED, range=(patience, 0), closed=True, kind="anti").run().table.to_pylist()
    print(f"{len(half_open)} connections half open after {patience}")
    for row in half_open:
        print(f"  {row['ts']:%H:%M:%S.%f}  {row['srcIP']}:{row['srcPort']} -> {row['destIP']}:{row['destPort']}")

counts = """SELECT count(*) AS handshakes [RANGE TUMBLING 5 s, WA syn.ts]
    FROM Capture AS syn [RANGE 3 s, WA ts, CLOSED], Capture AS answer [RANGE 0 s, WA ts, CLOSED]
    WHERE syn.srcIP = answer.destIP AND syn.destIP = answer.srcIP AND syn.srcPort = answer.destPort
    AND syn.destPort = answer.srcPort AND syn.flags = 2 AND answer.flags = 18"""
print(f"\n{counts}")
for row in oop.query(counts, Capture=packets).run().table.to_pylist():
    print(f"  {row['window_start']:%H:%M:%S}  {'#' * row['handshakes']}")
