"""Explain in the words of the language why the parser could not go on."""

from __future__ import annotations

import contextlib
import difflib
import ipaddress
import re
import typing as t

from lark import Lark, Token
from lark.exceptions import UnexpectedInput, UnexpectedToken

from oop_engine.language.elsewhere import EMPTY
from oop_engine.language.habits import Stop, a_name, habit
from oop_engine.language.scan import RESERVED, Lexeme, Places, lexeme_at
from oop_engine.query_errors import LanguageError

KEYWORDS: t.Final[dict[str, str]] = {
    "_SELECT": "SELECT",
    "DISTINCT": "DISTINCT",
    "_AS": "AS",
    "_FROM": "FROM",
    "JOIN": "JOIN",
    "_ON": "ON",
    "_UNION": "UNION",
    "_WITH": "WITH",
    "_SPREAD": "SPREAD",
    "_NUMBER": "NUMBER",
    "_OVER": "OVER",
    "_BY": "BY",
    "_TABLE": "TABLE",
    "_DESCRIPTOR": "DESCRIPTOR",
    "_INTERVAL": "INTERVAL",
    "_TIMESTAMP": "TIMESTAMP",
    "WINDOWED": "TUMBLE, HOP, CUMULATE, SESSION",
    "_WAIT": "WAIT",
    "_REVISE": "REVISE",
    "_WHERE": "WHERE",
    "_GROUP_BY": "GROUP BY",
    "_HAVING": "HAVING",
    "_ORDER_BY": "ORDER BY",
    "ASC": "ASC",
    "DESC": "DESC",
    "_LIMIT": "LIMIT",
    "_WITHIN": "WITHIN",
    "_ALERT": "ALERT",
    "_BILL": "BILL",
    "_PER": "PER",
    "_DEDUP": "DEDUP",
    "_MARK": "MARK",
    "_FOR": "FOR",
    "_WINDOWS": "WINDOWS",
    "_CLEAR": "CLEAR",
    "_BELOW": "BELOW",
    "_ABOVE": "ABOVE",
    "SIZE": "a size",
    "OR": "OR",
    "AND": "AND",
    "NOT": "NOT",
    "_BETWEEN": "BETWEEN",
    "_IN": "IN",
    "_IS": "IS",
    "LIKE": "LIKE",
    "ILIKE": "ILIKE",
    "HAS": "HAS",
    "_CASE": "CASE",
    "_WHEN": "WHEN",
    "_THEN": "THEN",
    "_ELSE": "ELSE",
    "_END": "END",
    "NULL": "NULL",
    "TRUE": "TRUE",
    "FALSE": "FALSE",
    "_NETWORK": "NETWORK",
    "_RANGE": "RANGE",
    "_SESSION": "SESSION",
    "TUMBLING": "TUMBLING",
    "ALL": "ALL",
    "_SLIDE": "SLIDE",
    "_WA": "WA",
    "_RATTR": "RATTR",
    "_SATTR": "SATTR",
    "_PA": "PA",
    "_ORIGIN": "ORIGIN",
    "_NO": "NO PARTIAL",
    "_PARTIAL": "PARTIAL",
    "_CLOSED": "CLOSED",
    "_EARLY": "EARLY",
    "_AT": "AT",
    "_ROWS": "ROWS",
    "_EVENT": "EVENT",
    "_CLOCK": "CLOCK",
    "_LULL": "LULL",
    "_EVERY": "EVERY",
    "_PROMISE": "PROMISE",
    "_TRIGGER": "TRIGGER",
    "_UNTIL": "UNTIL",
    "_LATENESS": "LATENESS",
    "_CONSISTENT": "CONSISTENT",
    "_EMPTY": "EMPTY",
    "_IDLE": "IDLE",
    "_STRATEGY": "STRATEGY",
    "_FLUSH": "FLUSH",
    "_BAND": "BAND",
    "_MARKED": "MARKED BY",
    "_CALENDAR": "CALENDAR",
    "_NEXT": "NEXT",
    "REFINE": "ACCUMULATE, DISCARD, RETRACT",
}
_NAMES: t.Final = frozenset({"NAME", "QUOTED", "ROW_NUM", "ARRIVAL_TS"})
_NUMBERS: t.Final = frozenset({"INTEGER", "DECIMAL", "FLOAT"})
_CONSTANTS: t.Final = frozenset({"STRING", "TRUE", "FALSE", "NULL"})
_ARITHMETIC: t.Final = frozenset(
    {"PLUS", "MINUS", "STAR", "SLASH", "SLASHES", "PERCENT", "JOINED", "AMPERSAND", "BAR", "SHIFT"}
)
_PARAMETERS: t.Final = frozenset({"_RANGE", "_SLIDE", "_WA", "_RATTR", "_SATTR", "_PA", "_ORIGIN", "_NO"})
_SELDOM: t.Final = frozenset(
    {
        "_SESSION",
        "_CLOSED",
        "_EARLY",
        "_LATENESS",
        "_CONSISTENT",
        "_EMPTY",
        "_STRATEGY",
        "_BAND",
        "_MARKED",
        "_CALENDAR",
        "_WHEN",
    }
)
_STEPS: t.Final = frozenset(
    {"_SPREAD", "_NUMBER", "_DEDUP", "_ALERT", "_BILL", "SIZE", "_WAIT", "_REVISE", "_WITHIN", "_FLUSH"}
)
_PREDICATES: t.Final = frozenset({"_BETWEEN", "_IN", "_IS", "LIKE", "ILIKE", "HAS", "NOT", "AND", "OR"})

# Each kind of thing: the terminals that together mean it, those it also swallows, and how people call it.
# A kind is named only when all its terminals are expected; the order is that of the sentence.
_KINDS: t.Final = (
    (
        _NAMES | _NUMBERS | {"MINUS", "PLUS"},
        _CONSTANTS | {"NOT", "_OPEN", "_CASE", "_INTERVAL", "_TIMESTAMP"},
        ("an expression",),
    ),
    (_PARAMETERS, _SELDOM, ("RANGE", "SLIDE", "WA")),
    (_NAMES, frozenset({"WINDOWED", "_TABLE"}), ("a name",)),
    # A further part of a duration, as in 1 hour 30 minutes, is hardly what was meant.
    (frozenset({"INTEGER", "DECIMAL", "_COMMA", "_CLOSE_WINDOW"}), frozenset[str](), ('","', '"]"')),
    (frozenset({"INTEGER", "DECIMAL"}), frozenset({"FLOAT"}), ("a number",)),
    (frozenset({"INTEGER"}), frozenset[str](), ("a whole number",)),
    (frozenset({"UNIT"}), frozenset[str](), ("a unit",)),
    (frozenset({"STRING"}), frozenset[str](), ("a string",)),
    (frozenset({"NAME"}), frozenset[str](), ("a word",)),
    (_ARITHMETIC | {"COMPARISON"}, _PREDICATES | {"_OPEN", "_DOT"}, ("an operator",)),
    (_ARITHMETIC | {"AND", "OR"}, frozenset({"_OPEN", "_DOT"}), ("an operator",)),
    (_ARITHMETIC, frozenset({"_OPEN", "_DOT"}), ("an operator",)),
    (frozenset({"AND", "OR"}), frozenset[str](), ("an operator",)),
    (frozenset({"PERCENT"}), frozenset[str](), ('"%"',)),
)
_AFTER_FROM: t.Final = frozenset({"WHERE", "GROUP", "GROUP-BY", "GROUPBY", "HAVING"})
_SYMBOLS: t.Final[dict[str, str]] = {
    "STAR": '"*"',
    "_DOT": '"."',
    "_COMMA": '","',
    "_OPEN": '"("',
    "_CLOSE": '")"',
    "_OPEN_WINDOW": '"["',
    "_CLOSE_WINDOW": '"]"',
    "MINUS": '"-"',
}
_SEVERAL: t.Final = "Windows beside one another have names: [RANGE 1 minute, WA ts] AS minute, [SESSION 5 s] AS burst."
_OWN: t.Final = (
    "Months are [CALENDAR month, WA ts]. Windows of your own exist in Python only: stream.window(oop.edges(next_edge))."
)
_ZONE: t.Final = "Days of a time zone are [CALENDAR day IN 'Europe/Berlin', WA ts]."
_CONDITIONS: t.Final = (
    "Windows begin and end by conditions with WHEN: [WHEN flags HAS 'SYN' UNTIL flags HAS 'FIN' WITHIN 10 min, WA ts]."
)
_SORTED: t.Final = 'No order is needed; to sort all the same, in Python: stream.reorder(slack="2 s").'
_SLIDING: t.Final = "Write [RANGE 10 minutes, SLIDE 1 minute, WA ts], or [RANGE TUMBLING 1 minute, WA ts]."
_SHARED: t.Final = "Amounts are shared out over time in FROM: FROM Flows SPREAD bytes OVER ts, end_ts BY 1 s."
_LATE: t.Final = (
    "Windows that late tuples change are given again with LATENESS: [RANGE 1 minute, WA ts, LATENESS 30 s]."
)
_EARLY: t.Final = "Results come early with EARLY 10 s, or EARLY AT 50 %; as tuples come, with EARLY WHEN 1000 ROWS."
_IN_WINDOWS: t.Final[dict[str, str]] = {
    "BAND": "One window at a fixed place is [BAND 1 hour FROM '2013-05-02T20:00:00Z', WA ts].",
    "MARKED": "Windows between marked tuples are [MARKED BY flag, WA ts].",
    **dict.fromkeys(("MONTH", "MONTHS", "YEAR", "YEARS", "CALENDAR", "EDGES", "OWN", "CONTEXT"), _OWN),
    **dict.fromkeys(("LATENESS", "LATE", "ALLOWED", "GRACE"), _LATE),
    **dict.fromkeys(("ZONE", "TIMEZONE", "TZ"), _ZONE),
    **dict.fromkeys(("EMPTY", "FILL", "GAPFILL"), EMPTY),
    **dict.fromkeys(("TRIGGER", "EMIT", "FIRE"), _EARLY),
    **dict.fromkeys(("GAP", "INACTIVITY"), "Sessions end where a gap begins: [SESSION 5 s, WA ts]."),
    **dict.fromkeys(("UNTIL", "WITHIN", "THRESHOLD", "ENTER", "LEAVE", "START", "STOP"), _CONDITIONS),
    "STRATEGY": "It is chosen in the brackets of a window: [RANGE 1 minute, WA ts, STRATEGY panes].",
    "CONSISTENT": "It is asked for in the brackets of a window: [RANGE 1 minute, WA ts, CONSISTENT].",
    "IDLE": "Write [RANGE 100 rows, SLIDE 10 s, WA ts, NO IDLE].",
    **dict.fromkeys(("SPREAD", "PRORATE", "DISTRIBUTE"), _SHARED),
    **dict.fromkeys(("REORDER", "SORT", "SORTED", "ORDER"), _SORTED),
    "COUNTED": "Write [RANGE 100 rows, WA rank(ts)], or WA row-num for the order of arrival.",
    "LATEST": "Write [RANGE 100 rows, SLIDE 10 s, WA ts]: the last 100 tuples, every 10 s.",
    **dict.fromkeys(("SLIDING", "HOP", "HOPPING", "TUMBLE", "TUMBLING"), _SLIDING),
}
"""What is asked for inside a window's brackets and said elsewhere, or otherwise."""
_WORDS_AFTER: t.Final[dict[str, str]] = {
    "_STRATEGY": "Write [RANGE 1 minute, WA ts, STRATEGY panes], or leave it out: it changes time and memory alone.",
    "_CALENDAR": "Write [CALENDAR month, WA ts], or day, week, quarter or year.",
}
"""What is one of few words, by what stands before it."""
_ANYWHERE: t.Final = frozenset(
    {"LATENESS", "STRATEGY", "CONSISTENT", "SPREAD", "PRORATE", "DISTRIBUTE", "FILL", "REORDER", "SORT"}
)
"""Those of them that are asked for outside of the brackets too."""


def diagnose(grammar: Lark, error: UnexpectedInput, text: str, *, what: str = "query") -> LanguageError:
    """Make the error that says what was expected and found where the parser stopped."""
    tokens = _tokens_before(grammar, text)
    expected = _accepted(grammar, tokens)
    places = Places(text)
    ended = isinstance(error, UnexpectedToken) and error.token.type == "$END"
    found = None if ended or error.pos_in_stream is None else lexeme_at(text, error.pos_in_stream)
    if found is None:
        end = tokens[-1].end_pos or 0 if tokens else 0
        span, seen = places.span(end, end), f"the end of the {what}"
    else:
        span, seen = places.span(found.start, found.end), f'"{_shown(found.text)}"'
    wanted = _in_words(expected, what)
    if "_FROM" in expected and (found is None or found.text.upper() in _AFTER_FROM):
        wanted = "FROM and the name of a stream"
    hint = _hint(expected, found, tokens, text) or _hint_about_last(grammar, tokens)
    if not hint and found is not None:
        hint = a_name(_stop(expected, found, tokens, text))
    return LanguageError.at(span, f"expected {wanted}, found {seen}.", text, hint=hint)


def _tokens_before(grammar: Lark, text: str) -> list[Token]:
    """Return the tokens the parser took before it stopped."""
    parser = grammar.parse_interactive(text)
    taken: list[Token] = []
    with contextlib.suppress(UnexpectedInput):
        for token in parser.lexer_thread.lex(parser.parser_state):
            parser.feed_token(token)
            taken.append(token)
    return taken


def _accepted(grammar: Lark, tokens: list[Token]) -> set[str]:
    # A parser that saw the wrong token has already reduced on it and forgotten what else could have come.
    parser = grammar.parse_interactive()
    for token in tokens:
        parser.feed_token(token)
    return set(parser.accepts())


def _in_words(expected: set[str], what: str) -> str:
    rest = expected - _STEPS
    words: list[str] = []
    for needed, swallowed, said in _KINDS:
        if needed <= rest:
            rest -= needed | swallowed
            words.extend(said)
    ends = "$END" in rest
    if not ends:
        words.extend(said for terminal, said in _SYMBOLS.items() if terminal in rest)
    # A kind that comes last in a sentence reads better than before the clauses that may follow it.
    if "an operator" in words:
        words.remove("an operator")
        words.append("an operator")
    words.extend(said for terminal, said in KEYWORDS.items() if terminal in rest)
    if ends:
        words.append(f"the end of the {what}")
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def _stop(expected: set[str], found: Lexeme, tokens: list[Token], text: str) -> Stop:
    following = lexeme_at(text, found.end)
    if following is not None and following.kind == "skip":
        following = lexeme_at(text, following.end)
    return Stop(tokens, frozenset(expected), found, () if following is None else (following,))


def _hint(expected: set[str], found: Lexeme | None, tokens: list[Token], text: str) -> str:
    if found is None:
        return ""
    if not tokens:
        return _meant(found, expected) or habit(_stop(expected, found, tokens, text))
    word, last = found.text.upper(), tokens[-1]
    if last.type in _WORDS_AFTER:
        return _WORDS_AFTER[last.type]
    types = [token.type for token in tokens]
    if word in _IN_WINDOWS and (word in _ANYWHERE or _in_window(types)):
        return _IN_WINDOWS[word]
    if last.type == "_CLOSE_WINDOW" and word in ("[", ",") and "_FROM" in expected:
        return _SEVERAL
    if word == "%" and "_EARLY" in types and _in_window(types):
        return "A share of a window stands after AT: EARLY AT 50 %."
    if "_SPREAD" in types and ({"_OVER", "_BY"} & expected or word == "OVER"):
        return _SHARED
    if re.match(r"\.\d", word) and last.type in _NUMBERS:
        return "An IP address stands in quotes, e.g. '10.0.0.7'."
    if word in (":", "::") and last.type in (_NUMBERS | {"NAME"}) and _address(text, last, found):
        return "An IP address stands in quotes, e.g. '2001:db8::7'."
    if word == "UNION" and "_UNION" not in expected and "_FROM" in types:
        return "An alias or window belongs to the whole union; for one member write (A AS x) UNION B."
    if types[-3:] == ["_PA", "NAME", "_COMMA"]:
        return f"Several attributes stand in parentheses: PA ({tokens[-2]}, {_shown(found.text)})."
    if found.kind == "word" and found.text.lower() in RESERVED and last.type in ("_AS", "_DOT"):
        return f"{word} is a word of the language; write `{found.text}` to use it as a name."
    return habit(_stop(expected, found, tokens, text)) or _meant(found, expected)


def _address(text: str, last: Token, found: Lexeme) -> bool:
    """Return whether a number or a word before a colon begins an IPv6 address that has no quotes."""
    written = re.match(r"[0-9a-f:.]+(?!\w)", text[last.start_pos or 0 :], re.IGNORECASE)
    if written is None or last.end_pos != found.start:
        return False
    try:
        return ipaddress.ip_address(written[0]).version == 6
    except ValueError:
        return False


def _in_window(types: list[str]) -> bool:
    """Return whether a window's brackets are open after these tokens."""
    return types.count("_OPEN_WINDOW") > types.count("_CLOSE_WINDOW")


def _meant(found: Lexeme, expected: set[str]) -> str:
    close = _closest(found.text, expected) if found.kind == "word" else ""
    return f"Did you mean {close}?" if close else ""


def _hint_about_last(grammar: Lark, tokens: list[Token]) -> str:
    """Suspect the word before the fault: a misspelt keyword is often taken for a name."""
    if not tokens or tokens[-1].type != "NAME":
        return ""
    close = _closest(tokens[-1], _accepted(grammar, tokens[:-1]), cutoff=0.8)
    return f'Did you mean {close} for "{tokens[-1]}"?' if close else ""


def _closest(word: str, expected: set[str], *, cutoff: float = 0.7) -> str:
    if len(word) < 3:
        return ""
    words = [said for terminal, said in KEYWORDS.items() if terminal in expected]
    close = difflib.get_close_matches(word.upper(), words, n=1, cutoff=cutoff)
    return close[0] if close and close[0] != word.upper() else ""


def _shown(text: str) -> str:
    text = "".join(char if char.isprintable() else " " for char in text)
    return text if len(text) <= 30 else f"{text[:27]}..."
