"""Texts that the grammar of the query language derives: by lot alone, or clause by clause so that most are plans.

text_of_clauses(random.Random(7))     'SELECT k, count(*) AS n [SESSION 3 s, WA ts] FROM M WHERE ok GROUP BY k'
"""

from __future__ import annotations

import functools
import random
from collections.abc import Mapping, Sequence

from lark.grammar import NonTerminal, Rule, Symbol

from oop_engine.language.parse import _grammar  # pyright: ignore[reportPrivateUsage]

_STREAMS = ("M", "N", "M", "N", "a", "x")
_NAMES = ("ts", "v", "f", "k", "flags", "ok", "end_ts", "a.ts", "b.v", "wid", "window_end", "M.k", "t.name", "x", "n")
_FUNCTIONS = (
    *("count", "sum", "max", "avg", "p95", "rate", "rank", "top_k", "argmax", "first", "concat", "stddev"),
    *("abs", "cast", "coalesce", "length", "least", "greatest", "nullif", "upper", "substr", "network", "floor"),
    *("time_bucket", "date_trunc", "date_bin", "regexp_matches", "nothing"),
)
_TEXTS = (
    *("'a'", '"1 minute"', "'2013-05-02'", "'10.0.0.0/8'", "'SYN'", "'UTC'", "'5'", "''", "'Europe/Berlin'", "'%x_'"),
    *("'int64'", "'string'", "'minute'", "'1'"),
)
_WORDS: Mapping[str, Sequence[str]] = {
    "NAME": ("ts", "v", "k", "M", "N", "a", "b", "x", "n", "t", "second", "MINUTE", "panes", "slicing", "day", "month"),
    "QUOTED": ("`k`", "`id.x`"),
    "STRING": _TEXTS,
    "INTEGER": (*"0125125", "60", "100", "1000", "18446744073709551616"),
    "DECIMAL": ("0.5", "1.25", "50.0"),
    "FLOAT": ("1e3", "2.5e-3"),
    "UNIT": ("s", "minutes", "rows", "ns", "hours", "day", "parsecs"),
    "SIZE": ("kB", "MiB"),
    "COMPARISON": ("=", "<>", "<", "<=", ">", ">="),
    "SHIFT": ("<<", ">>"),
    "JOIN": ("JOIN", "INNER JOIN", "LEFT JOIN", "FULL OUTER JOIN", "SEMI JOIN", "ANTI JOIN", "RIGHT JOIN"),
    "LOOKUP": ("LOOKUP", "INNER LOOKUP", "LEFT LOOKUP"),
    "WINDOWED": ("TUMBLE", "HOP", "CUMULATE", "SESSION"),
    "REFINE": ("ACCUMULATE", "DISCARD", "RETRACT"),
    "ROW_NUM": ("row-num", "row_num"),
    "ARRIVAL_TS": ("arrival-ts",),
    "_WINDOWS": ("WINDOWS",),
    "JOINED": ("||",),
    "AMPERSAND": ("&",),
    "BAR": ("|",),
    "PLUS": ("+",),
    "MINUS": ("-",),
    "STAR": ("*",),
    "SLASH": ("/",),
    "SLASHES": ("//",),
    "PERCENT": ("%",),
    "_DOT": (".",),
    "_COMMA": (",",),
    "_SEMICOLON": (";",),
    "_OPEN": ("(",),
    "_CLOSE": (")",),
    "_OPEN_WINDOW": ("[",),
    "_CLOSE_WINDOW": ("]",),
}
_MEANT: Mapping[tuple[str, str], Sequence[str]] = {
    ("table", "NAME"): ("M", "N"),
    ("windowed", "NAME"): ("M", "N"),
    ("lookup", "NAME"): ("t", "u"),
    ("call", "NAME"): _FUNCTIONS,
    ("call_star", "NAME"): ("count", "rate"),
    ("interval", "NAME"): ("SECOND", "minutes", "hour"),
    ("interval", "STRING"): ("'1'", "'5 s'", "'1 minute'"),
    ("timestamp", "STRING"): ("'2013-05-02 20:20:45'", "'1970-01-01T00:01:00Z'"),
    ("origin_string", "STRING"): ("'1970-01-01'",),
    ("in_network", "STRING"): ("'10.0.0.0/8'", "'::/0'"),
    ("size", "INTEGER"): ("1", "5"),
    ("duration", "INTEGER"): ("1", "5", "60"),
    ("duration", "UNIT"): ("s", "s", "minutes", "rows"),
}
"""What most words in a rule are, so that many texts are plans."""
_PHRASES = {
    "name": _NAMES,
    "atom": (*_NAMES[:6], "1", "'a'", "count(*)", "sum(v)", "max(v)", "length(k)", "INTERVAL '1' MINUTE"),
    "option": ("store lazy", "size 16", "flush slow", "store"),
    "interval": ("INTERVAL '1' MINUTE", "INTERVAL '5 s'", "INTERVAL '2' HOUR"),
    "window": (
        *("[RANGE TUMBLING 1 minute, WA ts]", "[RANGE 10 s, SLIDE 5 s, WA ts]", "[SESSION 3 s, WA ts]"),
        *("[RANGE 1 hour]", "[RANGE 9 rows, WA row-num]", "[RANGE 2 s, WA ts, LATENESS 5 s]", "[MARKED BY ok, WA ts]"),
    ),
}
"""Whole pieces of text in place of a rule."""
_CHAIN = frozenset({"or_expr", "and_expr", "not_expr", "predicate", "bits", "sum", "product", "sign"})


_WINDOWS = (
    *("[RANGE TUMBLING 1 minute, WA ts]", "[RANGE 10 s, SLIDE 5 s, WA ts]", "[SESSION 3 s, WA ts]", "[RANGE 1 hour]"),
    *("[RANGE 100 rows, SLIDE 10 rows, WA row-num]", "[RANGE ALL, SLIDE 1 min, WA ts]", "[MARKED BY ok, WA ts]"),
    *("[WHEN v > 1, WA ts]", "[WHEN v > 1 UNTIL ok WITHIN 5 s, WA ts, PA k]", "[WHEN ok UNTIL NEXT, WA ts]"),
    *("[RANGE 9 s, RATTR ts, SLIDE 3 rows, SATTR rank(ts)]", "[BAND 5 s FROM '1970-01-01', WA ts, CONSISTENT]"),
    *(
        "[RANGE TUMBLING 1 minute, WA ts, EARLY AT 50 % RETRACT]",
        "[RANGE 1 minute, WA ts, EARLY WHEN 2 ROWS OR EVENT 'e']",
        "[RANGE 1 minute, WA ts, EARLY WHEN 2 ROWS INTERVAL 95 % RETRACT]",
        "[RANGE 1 minute, WA ts, LATENESS 5 s]",
    ),
    *("[CALENDAR day IN 'Europe/Berlin', WA ts]", "[RANGE 5 s, WA ts] AS a, [RANGE 9 s, SLIDE 3 s, WA ts] AS b"),
    *("[RANGE 10 s, SLIDE 5 s, WA ts, STRATEGY panes]", "[RANGE 10, SLIDE 5, WA v]", "[RANGE 1 s, WA ts, EMPTY]"),
)
_SOURCES = (
    *("M", "M", "M UNION ALL N", "(SELECT * FROM M) AS x", "M NUMBER AS n", "M SPREAD v OVER ts, end_ts BY 10 s"),
    *("M AS a [RANGE 5 s, WA ts] JOIN N AS b [RANGE 5 s, WA ts] ON a.k = b.k", "M LOOKUP t ON v = t.v"),
    *("M AS a LEFT JOIN N AS b ON a.k = b.k AND a.ts BETWEEN b.ts - INTERVAL '2' SECOND AND b.ts",),
    *("TUMBLE(TABLE M, DESCRIPTOR(ts), INTERVAL '1' MINUTE)", "M LOOKUP u ON k = u.k AND v = u.v VALID FROM u.since"),
    *("HOP(TABLE M, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '10' SECOND)",),
)
_AGGREGATES = (
    *("count(*) AS n", "sum(v) AS n", "max(ts) - min(ts) AS d", "p95(f)", "count(DISTINCT k)", "top_k(k, 2)", "avg(f)"),
    *("rate(v)", "argmax(k, v)", "first(v)", "concat(k)", "max(v) // 2 AS h", "stddev(v)", "heavy_hitters(v, 0.1)"),
)
_GROUPS = ("k", "v % 2 AS g", "ok", "time_bucket('10 s', ts) AS m", "upper(k) AS u", "date_trunc('minute', ts)")


def text_of_clauses(random_: random.Random) -> str:
    """Return a query whose clauses fit more often than not; expressions come from the grammar."""

    def maybe(share: float, text: str) -> str:
        return text if random_.random() < share else ""

    def expression() -> str:
        return " ".join(words_of_grammar(random_, "expr", most=8))

    def some(pieces: Sequence[str], most: int = 2) -> list[str]:
        return random_.sample(pieces, random_.randint(1, most))

    source, aggregated = random_.choice(_SOURCES), random_.random() < 0.7
    if not aggregated:
        items = ["*"] if random_.random() < 0.2 else [f"{expression()} AS e{place}" for place in range(3)]
        where = maybe(0.5, " WHERE " + expression())
        order = maybe(0.2, f" ORDER BY {random_.choice(_NAMES)} LIMIT 2")
        return f"SELECT {maybe(0.1, 'DISTINCT ')}{', '.join(items)} FROM {source}{where}{order}"
    groups = some(_GROUPS) if random_.random() < 0.5 else []
    keys = [group.rpartition(" AS ")[2] for group in groups if "date_trunc" not in group]
    over = maybe(0.7, " " + random_.choice(_WINDOWS))
    text = f"SELECT {', '.join([*keys, *some(_AGGREGATES)])}{over} FROM {source}{maybe(0.3, ' WHERE ' + expression())}"
    text += f" GROUP BY {', '.join(groups)}" if groups else ""
    text += maybe(0.2, f" HAVING {random_.choice(('count(*) > 1', 'n > 1', expression()))}")
    text += maybe(0.1, f" ALERT x WHEN n > 1{maybe(0.5, ' FOR 2 WINDOWS')}{maybe(0.3, ' CLEAR BELOW 1')}")
    return text + maybe(0.2, f" ORDER BY {random_.choice(('n DESC', 'k', '1', expression()))}{maybe(0.7, ' LIMIT 2')}")


def text_of_grammar(random_: random.Random) -> str:
    """Return a text of the grammar: rules are chosen by lot, until they nest too deep."""
    return " ".join(words_of_grammar(random_, most=3))


def words_of_grammar(random_: random.Random, rule: str = "start", *, most: int) -> list[str]:
    """Return the words of a text that a rule of the grammar derives; below `most` levels it takes the shortest way."""
    words: list[str] = []
    waiting: list[tuple[Symbol, str, int]] = [(NonTerminal(rule), rule, 0)]
    rules, least = _rules()
    while waiting:
        symbol, parent, depth = waiting.pop()
        if not isinstance(symbol, NonTerminal):
            meant = _MEANT.get((parent, symbol.name))
            words.append(random_.choice(meant if meant and random_.random() < 0.9 else spelled(symbol.name)))
            continue
        choices = rules[symbol.name]
        if symbol.name in _PHRASES and random_.random() < 0.8:
            words.append(random_.choice(_PHRASES[symbol.name]))
            continue
        if symbol.name in _CHAIN and (depth > most or random_.random() < 0.85):
            choices = [rule for rule in choices if len(rule.expansion) == 1]
        elif depth > most:
            shortest = min(map(least.__getitem__, choices))
            choices = [rule for rule in choices if least[rule] == shortest]
        elif random_.random() < 0.7:
            # Optional parts are left out more often than not, as people do.
            few = sorted(choices, key=lambda rule: len(rule.expansion))
            choices = few[: 1 + len(few) // 3]
        chosen = random_.choice(choices)
        kind = chosen.alias or chosen.origin.name
        kind = parent if kind == "ident" else kind
        waiting += [(part, kind, depth + (symbol.name not in _CHAIN)) for part in reversed(chosen.expansion)]
    return words


def spelled(terminal: str) -> Sequence[str]:
    """Return ways to write a terminal: keywords are named after their words."""
    return _WORDS.get(terminal) or (terminal.strip("_").replace("_", " "),)


@functools.cache
def _rules() -> tuple[dict[str, list[Rule]], dict[Rule, int]]:
    """Return the rules by what they derive, and of each how deep its shortest derivation is."""
    rules: dict[str, list[Rule]] = {}
    for rule in _grammar("start").rules:
        rules.setdefault(rule.origin.name, []).append(rule)
    depths: dict[str, int] = {}
    least: dict[Rule, int] = {}
    while len(least) < sum(map(len, rules.values())):
        for name, choices in rules.items():
            for rule in choices:
                parts = [depths.get(part.name) for part in rule.expansion if isinstance(part, NonTerminal)]
                known = [depth for depth in parts if depth is not None]
                if rule not in least and len(known) == len(parts):
                    least[rule] = 1 + max(known, default=0)
                    depths[name] = min(depths.get(name, least[rule]), least[rule])
    return rules, least
