"""Hints for phrases of other query languages: how and where this language writes them."""

from __future__ import annotations

import re
import typing as t
from collections.abc import Sequence

import attrs
from lark import Token

from oop_engine.language.elsewhere import CALENDAR, CASE, JSON, MATCHES, PROMISES, of_windows, without_function
from oop_engine.language.scan import RESERVED, Lexeme
from operators.data.durations import TIME_UNITS
from operators.expression.casting import OTHERWISE

_OUTER: t.Final = "Joins are JOIN, LEFT JOIN, RIGHT JOIN, FULL JOIN, SEMI JOIN and ANTI JOIN, each with ON ..."
_JOIN: t.Final = (
    "Write FROM A AS a JOIN B AS b ON a.x = b.x AND a.ts BETWEEN b.ts - INTERVAL '1' MINUTE AND b.ts + INTERVAL '1' "
    "MINUTE,\n  or with windows that say how long tuples wait: FROM A AS a [RANGE 1 minute, WA ts], B AS b [RANGE 1 "
    "minute, WA ts] WHERE a.x = b.x"
)
_NESTED: t.Final = (
    "A query stands in FROM alone: join it, FROM A [RANGE ...] SEMI JOIN (SELECT ...) AS b [RANGE ...] ON A.x = b.x;\n"
    "  ANTI JOIN is for NOT."
)
_PARAMETER: t.Final = "A query has no parameters: the value stands in the text."
_COMMENT: t.Final = "A comment begins with two hyphens, --, and goes to the end of the line."
_FILTER: t.Final = "A condition of one aggregate counts as 1 or 0, sum(length > 100); of all stands after WHERE."
_EMIT: t.Final = (
    "Results are given as their windows are complete; earlier ones are asked for in the window:\n"
    "  [RANGE 1 minute, WA ts, EARLY 10 s]."
)
_STATEMENT: t.Final = "A query begins with SELECT; name its output outside of it, with --to FILE or stream.to(...)."
_BEGIN: t.Final = "A query begins with SELECT: SELECT srcIP, length FROM Main"
_PIPE: t.Final = (
    "A pipe is one query here: SELECT srcIP, count(*) [RANGE 1 minute, WA ts] FROM Main WHERE bytes > 9 GROUP BY srcIP."
)
_PACKETS: t.Final = "A filter stands behind WHERE: SELECT * FROM Main WHERE srcIP IN '10.0.0.0/8' AND destPort = 80."
_PIPED: t.Final = frozenset({"search", "index", "sourcetype", "tstats", "stats", "source"})
_FILTERED: t.Final = frozenset(
    {"src", "dst", "host", "net", "port", "portrange", "tcp", "udp", "ip", "ipv6", "icmp", "arp", "dns", "http", "tls",
     "eth", "frame", "vlan", "ether", "not", "less", "greater", "proto"}
)  # fmt: skip
"""The words with which filters of captures and of packets begin."""
_ROWS: t.Final = "Windows of the last tuples are [RANGE 5 rows, WA row-num], or [RANGE 5 rows, SLIDE 1 minute, WA ts]."
_POWER: t.Final = 'Write x * x; in Python stream.derive(y=lambda p: np.power(p["x"], 2)).'
_TYPED: t.Final = ("DATE", "DATETIME", "TIME", "INET", "CIDR", "IP", "IPV4", "IPV6", "TIMESTAMPTZ")
_SIZES: t.Final = ("k", "kb", "kib", "m", "mb", "mib", "g", "gb", "gib", "t", "tb")
_DIGITS: t.Final = "A number is written in decimal digits, 1000000 or 0.5 or 1e6."
_NOT_SPOKEN: t.Final[dict[str, str]] = {
    "ORDER": "Write ORDER BY last, and before LIMIT: SELECT ... GROUP BY srcIP ORDER BY bytes DESC LIMIT 10.",
    "NULLS": "Nulls come last.",
    **dict.fromkeys(("RLIKE", "SIMILAR", "REGEXP", "GLOB", "MATCHES", "CONTAINS"), MATCHES),
    **dict.fromkeys(("JOIN", "INNER", "CROSS", "NATURAL", "ASOF", "LATERAL"), _JOIN),
    "USING": "Write ON a.x = b.x.",
    **dict.fromkeys(("OVER", "WINDOW"), "A window stands in brackets after the SELECT list: [RANGE 1 minute, WA ts]."),
    **dict.fromkeys(("LEFT", "RIGHT", "FULL", "OUTER", "SEMI", "ANTI"), _OUTER),
    **dict.fromkeys(("WHEN", "THEN", "ELSE"), CASE),
    **dict.fromkeys(("EXCEPT", "MINUS"), "Write FROM A AS a [RANGE ...] ANTI JOIN B AS b [RANGE ...] ON a.x = b.x."),
    "INTERSECT": "Write FROM A AS a [RANGE ...] SEMI JOIN B AS b [RANGE ...] ON a.x = b.x.",
    **dict.fromkeys(("#", "–", "—", "/*"), _COMMENT),
    **dict.fromkeys(("$", "?", "@", ":"), _PARAMETER),
    **dict.fromkeys(("“", "”", "‘", "’", "„", "«"), "Quotes are straight: 'x' is text, `x` a name."),
    "&&": "Write AND; & is for the bits of integers.",
    "!": "Write NOT.",
    "~": MATCHES,
    ":=": 'Equality is written with one "=".',
    "^": _POWER,
    **dict.fromkeys(("ISNULL", "NOTNULL"), "Write x IS NULL, or x IS NOT NULL."),
    **dict.fromkeys(("SHOW", "USE", "SET"), _STATEMENT),
    "DIV": "Write x // y.",
    "MOD": "Write x % y.",
    "WITHIN": f"A window stands in brackets: [RANGE 1 minute, WA ts]. {_JOIN}",
    "WATERMARK": PROMISES,
    "PARTITION": "Groups are GROUP BY k; windows of rows for each value are [RANGE 5 rows, WA row-num, PA k].",
    "FOR": "The row of a tuple's own time is looked up: FROM A LOOKUP B AS b ON x = b.x VALID FROM b.since.",
    "TO": "Write GROUP BY date_trunc('minute', ts), or [RANGE TUMBLING 1 minute, WA ts].",
    "ROWS": _ROWS,
    "SAMPLE": "A window stands in brackets: [RANGE 1 minute, WA ts]; each tenth tuple is WHERE row-num % 10 = 0.",
    "LATEST": "Write argmax(x, ts): the x of the last time.",
    **dict.fromkeys(("PREWHERE", "QUALIFYING"), "Write WHERE."),
    "FINAL": "Results are final, unless EARLY or LATENESS is asked for: keep those with final, or the last revision.",
    **dict.fromkeys(("GLOBAL", "POSITIONAL", "LATERALS"), _JOIN),
    "AT": "Times are in UTC; a constant may say its zone: TIMESTAMP '2013-05-02 22:20:45+02:00'.\n"
    "  Days of a zone are windows: date_trunc('day', ts, 'Europe/Berlin'), or [CALENDAR day IN 'Europe/Berlin'].",
    "SETS": "Write a query for each grouping: GROUP BY a, b; GROUP BY a.",
    "QUALIFY": "Write ORDER BY x DESC LIMIT 1: the first of each window. LIMIT 1 WITHIN k gives one of each k.",
    "TABLESAMPLE": "Write WHERE row-num % 10 = 0: each tenth tuple.",
    "SETTINGS": "Settings stand outside of the query, as options of the command or in Python.",
    "MATCH_RECOGNIZE": "Tuples that belong together are found by joins: FROM A AS a JOIN B AS b ON ...",
    "INTO": _STATEMENT,
    "FILTER": _FILTER,
    "WITH": "WITH stands before all else: WITH x AS (SELECT ...) SELECT ... FROM x.",
    **dict.fromkeys(("INSERT", "UPDATE", "DELETE", "CREATE", "DROP", "MERGE", "VALUES"), _STATEMENT),
    **dict.fromkeys(("EMIT", "EARLY", "TRIGGER", "FIRE"), _EMIT),
    "EMPTY": "It is asked for in the brackets of a window: [RANGE 1 minute, WA ts, EMPTY].",
    **dict.fromkeys(("EXPLAIN", "DESCRIBE"), "To see the plan, use oop-engine explain, or stream.explain() in Python."),
}  # fmt: skip
_BEFORE: t.Final[dict[str, tuple[str, ...]]] = {
    "FROM": ("_WHERE", "_GROUP_BY", "_HAVING"),
    "WHERE": ("_GROUP_BY", "_HAVING"),
    "GROUP": ("_HAVING",),
    "GROUPBY": ("_HAVING",),
    "GROUP-BY": ("_HAVING",),
}
_CLAUSES: t.Final = {"_FROM": "FROM", "_WHERE": "WHERE", "_GROUP_BY": "GROUP BY", "_HAVING": "HAVING"}


@attrs.frozen
class Stop:
    """The place where the parser stopped: what it had read, expected and found, and what follows."""

    tokens: Sequence[Token]
    expected: frozenset[str]
    found: Lexeme
    following: Sequence[Lexeme]

    @property
    def word(self) -> str:
        """Return what was found, in capitals."""
        return self.found.text.upper()

    def types(self, count: int) -> list[str]:
        """Return the types of the last tokens."""
        return [token.type for token in self.tokens[-count:]]

    def last(self, place: int = 1) -> str:
        """Return a token in capitals, counted from the last; empty where there is none."""
        return str(self.tokens[-place]).upper() if len(self.tokens) >= place else ""


def habit(stop: Stop) -> str:
    """Say what to write instead of what was found, where another language has it; empty where none is known."""
    found = _about_words(stop) or _about_expressions(stop) or _about_order(stop) or _about_names(stop)
    if not stop.tokens and "_SELECT" in stop.expected and (not found or stop.word == "!"):
        follows = stop.following[0].text if stop.following else ""
        if "|" in (stop.word, follows) or (stop.word, follows) == ("FROM", "(") or stop.found.text.lower() in _PIPED:
            return _PIPE
        return _PACKETS if stop.found.text.lower() in _FILTERED or stop.word == "!" else _BEGIN
    return found or _about_inputs(stop)


def a_name(stop: Stop) -> str:
    """Say how a name is given, where one seems to be: the last guess, after that of a misspelt keyword."""
    if "_AS" not in stop.expected:
        return ""
    if stop.found.kind == "word" and stop.found.text.lower() not in RESERVED:
        joined = stop.following and stop.following[0].text.upper() in ("JOIN", "INNER", "CROSS", "NATURAL")
        named = f"A name is given with AS: AS {stop.found.text}."
        return f"{named}\n  {_JOIN}" if joined else named
    if stop.found.kind == "string":
        return f"A name is given with AS, and without quotes: AS {_named(stop.found.text)}."
    return ""


def _about_words(stop: Stop) -> str:
    word = stop.word
    if stop.last() == "STREAM" and stop.types(2)[:1] == ["_SELECT"]:
        return "Leave STREAM out: every query is over streams."
    if word == "WITHIN" and stop.following and stop.following[0].text.upper() == "GROUP":
        return "Write quantile(x, 0.95)."
    if word == "~" and "AND" not in stop.expected and stop.last() != "=":
        return "Write NOT for a condition."
    if word == "//" and {"_AS", "_WHERE"} & stop.expected:
        return _COMMENT
    if word in ("EXCLUDE", "EXCEPT", "REPLACE") and stop.types(1) == ["STAR"]:
        return "Name the attributes that are wanted: SELECT a, b."
    if word == "NULL" and stop.last() == "NOT" and stop.types(2)[:1] != ["_IS"]:
        return "Write x IS NOT NULL."
    if word == ")" and [str(token).lower() for token in stop.tokens[-2:]] == ["count", "("]:
        return "Write count(*)."
    if stop.last() == "TOP" and stop.found.kind == "number":
        return f"Write ORDER BY x DESC LIMIT {stop.found.text} after all else."
    if stop.last() == "CASE" or (word == "END" and "CASE" in map(str.upper, stop.tokens)):
        return CASE
    if word == "BY" and stop.types(2)[:1] == ["_LIMIT"]:
        return "Write ORDER BY bytes DESC LIMIT 1 WITHIN srcIP: the first of each srcIP in each window."
    if word == "FETCH":
        return "Write ORDER BY x DESC LIMIT 10."
    if word == "OFFSET" or (word == "," and stop.types(2)[:1] == ["_LIMIT"]):
        return "There is no OFFSET: a window gives its first results, ORDER BY x DESC LIMIT 10."
    if made := _about_windows(stop):
        return made
    if word == "::":
        wanted = stop.following[0].text if stop.following else ""
        return f"Write cast({stop.tokens[-1] if stop.tokens else 'x'}, '{OTHERWISE.get(wanted.lower(), 'int64')}')."
    if word == "SELECT" and "_SELECT" in stop.types(len(stop.tokens)) and "_SELECT" not in stop.expected:
        return "" if stop.types(1) == ["_SEMICOLON"] else _united(stop) or _NESTED
    if word in ("TRUE", "FALSE") and stop.types(1) in (["_IS"], ["NOT"]):
        return f"A condition stands alone: x for IS TRUE, NOT x for IS FALSE, x = {word} for either."
    if stop.last() == "RECURSIVE":
        return "A query does not read its own results: write WITH x AS (...) without RECURSIVE."
    if word == "ALL" or (word == "DISTINCT" and stop.types(1) == ["_UNION"]):
        return _united(stop)
    if stop.found.kind in ("word", "symbol"):
        return _NOT_SPOKEN.get(word, "")
    return ""


def _about_windows(stop: Stop) -> str:
    """Say how windows and durations are written, where another language makes them by a function or an INTERVAL."""
    calls = [str(t) for t, opened in zip(stop.tokens, stop.tokens[1:], strict=False) if opened.type == "_OPEN"]
    calls += [str(token) for token in stop.tokens[-1:] if stop.word == "("]
    if (stop.word in ("(", "INTERVAL", "DESCRIPTOR", "TABLE") or stop.last() == "INTERVAL") and calls:
        for call in calls:
            if made := of_windows(call):
                return made
    if stop.types(1) == ["_OPEN_WINDOW"] and stop.found.kind == "number":
        unit = stop.following[0].text if stop.following and stop.following[0].kind == "word" else "s"
        return f"Write [RANGE {stop.found.text} {unit}, WA ts]."
    if stop.found.kind == "number" and stop.expected == frozenset({"_INTERVAL"}):
        return f"{stop.found.text} of what? Write INTERVAL '{stop.found.text}' SECOND."
    wants_amount = {"INTEGER", "DECIMAL"} <= stop.expected and "FLOAT" not in stop.expected
    if wants_amount and stop.found.kind == "string":
        return f"A duration in a window stands without quotes: {stop.found.text[1:-1]}."
    if (wants_amount and re.fullmatch(r"PT?\d\w*", stop.word)) or ("UNIT" in stop.expected and stop.word == ":"):
        return "A duration is numbers with units: 1 minute, 90 s, 1h30m."
    if stop.word == "INTERVAL":
        return "Write a duration as a number and a unit, without INTERVAL and without quotes: RANGE 1 minute."
    if stop.last() == "INTERVAL" and stop.found.kind in ("string", "number"):
        unit = stop.following[0].text.lower() if stop.following and stop.following[0].kind == "word" else ""
        number = stop.found.text.strip("'\"")
        length = f"{number} {unit}" if number.isdigit() and unit else "1 minute"
        return f"Write a duration as text, '{length}'; in a window without quotes, [RANGE {length}, WA ts]."
    return ""


def _united(stop: Stop) -> str:
    types = stop.types(2)
    if stop.word == "SELECT" and "_UNION" in (types[-1], types[0] if stop.last() == "ALL" else ""):
        return "UNION stands between sources: SELECT ... FROM (SELECT ...) UNION (SELECT ...)."
    if stop.word == "DISTINCT" and types[-1:] == ["_UNION"]:
        return "UNION keeps duplicates; SELECT DISTINCT ... FROM A UNION B gives each result once."
    return ""


def _about_inputs(stop: Stop) -> str:
    """Say how an input is named, where a function or a path stands for one."""
    if stop.word == "(" and {"_AS", "JOIN"} <= stop.expected and stop.types(1) == ["NAME"]:
        return "FROM has streams by their names, and files in quotes: FROM 'capture.pcap'."
    if stop.word == "." and {"_AS", "JOIN"} <= stop.expected:
        return "A stream has one name, without a dot: FROM Main."
    return ""


def _about_literals(stop: Stop) -> str:
    """Say how a constant is written that has a unit, or a type before it."""
    last, types = stop.last(), stop.types(1)
    if types in (["INTEGER"], ["DECIMAL"]) and stop.found.kind == "word":
        unit = stop.found.text.lower()
        if unit in TIME_UNITS and _call(stop.tokens) == "TIME":
            return f"Write GROUP BY time_bucket('{last} {unit}', ts)."
        if unit in TIME_UNITS and (unit not in _SIZES or "TIME" in _call(stop.tokens)):
            return f"A duration stands in quotes: '{last} {unit}'."
        return _DIGITS if unit in _SIZES else ""
    if stop.found.kind == "string" and last in _TYPED and types == ["NAME"]:
        more = " or TIMESTAMP " + stop.found.text if "DATE" in last or "TIME" in last else ""
        return f"Write {stop.found.text}{more}: text beside a time or an address is read as one."
    return ""


def _about_calls(stop: Stop) -> str:
    """Say how a function is written whose arguments other languages part by words or brackets."""
    call = _call(stop.tokens)
    if stop.word == "FROM" and call == "EXTRACT":
        return CALENDAR
    if call == "POSITION" and stop.types(1) == ["_IN"]:
        return without_function("instr")
    if stop.word == "(" and stop.types(1) == ["_CLOSE"]:
        return "All arguments stand in one pair of brackets: top_k(x, 10), quantile(x, 0.95)."
    return ""


def _about_symbols(stop: Stop) -> str:
    """Say how an operator is written that this language spells otherwise."""
    word, last, types = stop.word, stop.last(), stop.types(1)
    if (last, word) == ("*", "*"):
        return _POWER
    if (last, word) == ("<=", ">"):
        return "Write x = y OR x IS NULL AND y IS NULL."
    if (last, word) == ("<<", "="):
        return "Write ip IN '10.0.0.0/8'."
    if last == "-" and word in (">", ">>"):
        return JSON
    if word == "[" and types in (["_SELECT"], ["_COMMA"]):
        return "Names with other characters stand in back-quotes: `k`."
    if word == "FROM" and types == ["_COMMA"]:
        return "No comma stands before FROM."
    return ""


def _call(tokens: Sequence[Token]) -> str:
    """Return the function whose brackets are open, in capitals; empty where there is none."""
    depth = 0
    for place in range(len(tokens) - 1, 0, -1):
        depth += {"_CLOSE": 1, "_OPEN": -1}.get(tokens[place].type, 0)
        if depth < 0:
            return str(tokens[place - 1]).upper()
    return ""


def _about_expressions(stop: Stop) -> str:
    word, last, types = stop.word, stop.last(), stop.types(3)
    if found := _about_calls(stop) or _about_symbols(stop) or _about_literals(stop):
        return found
    if word == "AS" and (argument := _cast(stop.tokens)):
        wanted = stop.following[0].text.lower() if stop.following else "float64"
        return f"Write cast({argument}, '{OTHERWISE.get(wanted, wanted)}')."
    if word == "*" and last == "/":
        return _COMMENT
    if word == "=" and last == "=":
        return 'Equality is written with one "=".'
    if types[-1:] == ["COMPARISON"] and word in ("=", ">", "<"):
        return ""
    if stop.found.kind == "symbol" and word in ("<", ">", "<=", ">=", "=", "<>", "!=") and _compared(stop.tokens):
        joined = [token.type for token in stop.tokens if token.type in ("JOINED", "COMPARISON")]
        if joined[-1:] == ["JOINED"]:
            return "Write OR: || puts texts together."
        return "A comparison has two sides: write x BETWEEN 1 AND 3, or 1 < x AND x < 3."
    if types[-1:] == ["_IS"]:
        return "IS goes with NULL only: x IS NULL; write = to compare."
    if types[-1:] == ["NOT"] and "_BETWEEN" in stop.expected and word not in _NOT_SPOKEN:
        return "NOT stands before a condition, NOT x = 5; or write <>."
    if word == ")" and types[-2:] == ["_IN", "_OPEN"]:
        return "A list has at least one constant: IN (1, 2)."
    if word == ")" and types[-2:] == ["NAME", "_OPEN"]:
        return without_function(stop.tokens[-2]) or f"{stop.tokens[-2]} takes an argument."
    if types[-1:] == ["INTEGER"] and re.fullmatch(r"(x[0-9a-f]+|[0-9a-z]*_[0-9_]+|b[01]+)", stop.found.text, re.I):
        return _DIGITS
    return ""


def _about_order(stop: Stop) -> str:
    """Say which clause stands before which."""
    here = _clauses(stop.tokens)
    after = [written for kind, written in _CLAUSES.items() if kind in here and kind in _BEFORE.get(stop.word, ())]
    if after and stop.found.kind == "word":
        first = "GROUP BY" if stop.word.startswith("GROUP") else stop.word
        return f"{first} stands before {after[0]}: SELECT ... FROM ... WHERE ... GROUP BY ... HAVING ..."
    if stop.word == "[" and here & {"_WHERE", "_GROUP_BY", "_HAVING"}:
        return "A window stands before WHERE: after the SELECT list, or after the stream."
    return ""


def _about_names(stop: Stop) -> str:
    """Say how a name is written where a string stands for one."""
    wants_name = "QUOTED" in stop.expected and "STRING" not in stop.expected
    if stop.found.kind == "string" and wants_name and "_AS" not in stop.expected:
        return f"What is in quotes is text; as a name write {_named(stop.found.text)}."
    return ""


def _named(string: str) -> str:
    name = string[1:-1]
    return name if re.fullmatch(r"[^\W\d]\w*", name) and name.lower() not in RESERVED else f"`{name}`"


def _cast(tokens: Sequence[Token]) -> str:
    """Return what a cast( that is still open is of; empty where there is none."""
    depth = 0
    for place in range(len(tokens) - 1, 0, -1):
        depth += {"_CLOSE": 1, "_OPEN": -1}.get(tokens[place].type, 0)
        if depth < 0:
            return " ".join(tokens[place + 1 :]) if str(tokens[place - 1]).upper() in ("CAST", "TRY_CAST") else ""
    return ""


def _clauses(tokens: Sequence[Token]) -> set[str]:
    """Return the clauses of the query that is being read, those of queries around it and inside it left out."""
    open_: list[set[str]] = [set()]
    for token in tokens:
        if token.type == "_OPEN":
            open_.append(set())
        elif token.type == "_CLOSE":
            open_.pop()
        else:
            open_[-1].add(token.type)
    return open_[-1]


def _compared(tokens: Sequence[Token]) -> bool:
    """Return whether the condition that is being read has been compared already."""
    for token in reversed(tokens):
        if token.type in ("COMPARISON", "_BETWEEN"):
            return True
        if token.type in ("AND", "OR", "_WHERE", "_HAVING", "_OPEN", "_COMMA", "_SELECT"):
            return False
    return False
