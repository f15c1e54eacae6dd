"""Attacks among 70,000 packets of three links that arrive up to five seconds late: found, and nothing else is."""

import oop_engine as oop

SECOND, START = 1_000_000_000, 1_795_255_200_000_000_000
links = [
    oop.packets(20_000, rate=333, link=f"Main{k}", seed=k, sources=5_000, zipf=0, disorder=oop.Band(5 * SECOND))
    for k in (1, 2, 3)
]


def packet(seconds, source, target, *, sport=40_000, dport=443, proto=6, length=60, flags=2):
    return {"ts": START + int(seconds * SECOND), "srcIP": source, "destIP": target, "srcPort": sport,
            "destPort": dport, "proto": proto, "length": length, "flags": flags}  # fmt: skip


attacks = [packet(20 + k / 200, f"100.64.{k // 250}.{k % 250}", "203.0.113.8") for k in range(6000)]
attacks += [packet(60 + k / 50, "192.0.2.66", "10.1.0.18", dport=k) for k in range(1, 1001)]
attacks += [packet(k / 2, "192.0.2.99", f"10.1.3.{k}", dport=3389) for k in range(1, 201)]
attacks += [
    packet(80 + k / 100, f"198.18.0.{k % 200}", "203.0.113.34", sport=53, dport=999, proto=17, length=1400, flags=None)
    for k in range(3000)
]
attacks += [packet(k, "10.1.1.195", "198.51.100.77", dport=8443) for k in range(3, 120, 10)]
hidden = oop.rows(attacks, links[0].schema.arrow, name="attacks", punctuate=oop.slack("120 s"))
traffic = oop.meld(*links, hidden)

for question in (oop.queries.syn_flood, oop.queries.vertical_scan, oop.queries.horizontal_scan,
                 oop.queries.dns_amplification, oop.queries.beaconing):  # fmt: skip
    found = question(traffic).run()
    print(f"{question.__name__}: {found.statistics.tuples:,} packets, {found.table.num_rows} windows with an alarm")
    for row in sorted(found.table.to_pylist(), key=lambda row: row["window_start"])[:4]:
        who = " -> ".join(str(row[name]) for name in ("srcIP", "destIP") if name in row)
        counted = {name: row[name] for name in row if name in ("syns", "ports", "hosts", "reflectors", "contacts")}
        print(f"  {row['window_start']:%H:%M:%S} to {row['window_end']:%H:%M:%S}  {who}  {counted}")
