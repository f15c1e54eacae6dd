"""A language error shows the place, the text there, a caret under it, and what to write instead."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given

from oop_engine.language import LanguageError, Span, parse
from oop_engine.language import syntax as s

CASES = {
    "a misspelt window parameter": (
        "SELECT srcIP, count(*) AS number_of_packets, sum(len) FROM Main [RANG 1 minute, WA ts]",
        """
line 1, column 66: expected RANGE, SLIDE or WA, found "RANG".
  ... sum(len) FROM Main [RANG 1 minute, WA ts]
                          ^^^^
  Did you mean RANGE?""",
    ),
    "an empty text": (
        "",
        """
line 1, column 1: the query is empty.
  Write for example SELECT count(*) [RANGE TUMBLING 1 minute, WA ts] FROM Main""",
    ),
    "nothing but a comment": (
        "-- nothing",
        """
line 1, column 1: the query is empty.
  -- nothing
  ^
  Write for example SELECT count(*) [RANGE TUMBLING 1 minute, WA ts] FROM Main""",
    ),
    "a missing FROM": (
        "SELECT count(*) WHERE len > 100",
        """
line 1, column 17: expected FROM and the name of a stream, found "WHERE".
  SELECT count(*) WHERE len > 100
                  ^^^^^""",
    ),
    "no FROM at all": (
        "SELECT count(*)  -- all",
        """
line 1, column 16: expected FROM and the name of a stream, found the end of the query.
  SELECT count(*)  -- all
                 ^""",
    ),
    "a misspelt FROM": (
        "SELECT a FORM Main",
        """
line 1, column 10: expected ",", "[", an operator, AS or FROM, found "FORM".
  SELECT a FORM Main
           ^^^^
  Did you mean FROM?""",
    ),
    "a bracket that stays open": (
        "SELECT a FROM Main WHERE (a = 1 AND b = 2",
        """
line 1, column 26: this "(" is never closed.
  SELECT a FROM Main WHERE (a = 1 AND b = 2
                           ^""",
    ),
    "a bracket that closes nothing": (
        "SELECT a) FROM Main",
        """
line 1, column 9: ")" closes nothing; no bracket is open here.
  SELECT a) FROM Main
          ^""",
    ),
    "a bracket that closes another": (
        "SELECT max(len] FROM Main",
        """
line 1, column 15: "]" cannot close the "(" of line 1, column 11.
  SELECT max(len] FROM Main
                ^""",
    ),
    "a string that never ends": (
        'SELECT a FROM Main WHERE srcIP = "10.0.0.1',
        """
line 1, column 34: the string that " opens here never ends.
  SELECT a FROM Main WHERE srcIP = "10.0.0.1
                                   ^""",
    ),
    "an unknown unit on the right line": (
        "SELECT count(*)\r\n\t[RANGE 10 minuets, SLIDE 1 minute, WA ts]\r\nFROM Main",
        """
line 2, column 12: expected a unit such as ns, us, ms, s, min, hour, day, week or rows, found "minuets".
   [RANGE 10 minuets, SLIDE 1 minute, WA ts]
             ^^^^^^^
  Did you mean "minutes"?""",
    ),
    "a unit that is a number": (
        "SELECT a [RANGE ten minutes] FROM M",
        """
line 1, column 17: expected a number, TUMBLING or ALL, found "ten".
  SELECT a [RANGE ten minutes] FROM M
                  ^^^""",
    ),
    "a missing comma in a window": (
        "SELECT a [RANGE 10 minutes SLIDE 1 minute] FROM M",
        """
line 1, column 28: expected "," or "]", found "SLIDE".
  SELECT a [RANGE 10 minutes SLIDE 1 minute] FROM M
                             ^^^^^""",
    ),
    "stray words after the end": (
        "SELECT a FROM M s",
        "\nline 1, column 17: expected AS, JOIN, UNION, WHERE, GROUP BY, HAVING, ORDER BY, LIMIT or the end of the "
        """query, found "s".
  SELECT a FROM M s
                  ^
  A name is given with AS: AS s.""",
    ),
    "stray text after the semicolon": (
        "SELECT a FROM Main; SELECT b FROM Main",
        """
line 1, column 21: expected the end of the query, found "SELECT".
  SELECT a FROM Main; SELECT b FROM Main
                      ^^^^^^""",
    ),
    "a keyword taken for a name": (
        "SELECT DISTNCT srcIP FROM Main",
        """
line 1, column 16: expected ",", "[", an operator, AS or FROM, found "srcIP".
  SELECT DISTNCT srcIP FROM Main
                 ^^^^^
  Did you mean DISTINCT for "DISTNCT"?""",
    ),
    "a reserved word as a name": (
        "SELECT a AS union FROM M",
        """
line 1, column 13: expected a name, found "union".
  SELECT a AS union FROM M
              ^^^^^
  UNION is a word of the language; write `union` to use it as a name.""",
    ),
    "two equal signs": (
        "SELECT a FROM M WHERE a == 1",
        """
line 1, column 26: expected an expression, found "=".
  SELECT a FROM M WHERE a == 1
                           ^
  Equality is written with one "=".""",
    ),
    "partitioning attributes without parentheses": (
        "SELECT a [RANGE 5 rows, PA a, b] FROM M",
        """
line 1, column 31: expected RANGE, SLIDE or WA, found "b".
  SELECT a [RANGE 5 rows, PA a, b] FROM M
                                ^
  Several attributes stand in parentheses: PA (a, b).""",
    ),
    "an address without quotes": (
        "SELECT a FROM M WHERE a = 10.0.0.7",
        """
line 1, column 31: expected an operator, GROUP BY, HAVING, ORDER BY, LIMIT or the end of the query, found ".0".
  SELECT a FROM M WHERE a = 10.0.0.7
                                ^^
  An IP address stands in quotes, e.g. '10.0.0.7'.""",
    ),
    "a word of other languages": (
        "SELECT a FROM M WHERE a RLIKE 'x'",
        """
line 1, column 25: expected an operator, GROUP BY, HAVING, ORDER BY, LIMIT or the end of the query, found "RLIKE".
  SELECT a FROM M WHERE a RLIKE 'x'
                          ^^^^^
  Write x LIKE 'a%', or regexp_matches(x, '^a'), whose patterns are those of RE2.""",
    ),
    "an alias inside a union": (
        "SELECT a FROM A AS x UNION B",
        """
line 1, column 22: expected JOIN, WHERE, GROUP BY, HAVING, ORDER BY, LIMIT or the end of the query, found "UNION".
  SELECT a FROM A AS x UNION B
                       ^^^^^
  An alias or window belongs to the whole union; for one member write (A AS x) UNION B.""",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_fault_is_told_in_the_words_of_the_language(case: str) -> None:
    text, told = CASES[case]
    with pytest.raises(LanguageError) as caught:
        parse(text)
    assert str(caught.value) == told.removeprefix("\n")


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("SELECT a [WA ts] FROM M", 10, "this window has no RANGE."),
        ("SELECT a [RANGE 1 s, RANGE 2 s] FROM M", 22, "this window has RANGE twice."),
        ("SELECT a FROM A [RANGE 1 s, CLOSED, CLOSED], B", 37, "this window has CLOSED twice."),
        ("SELECT max(a) [RANGE 1 s, CLOSED] FROM M", 15, "CLOSED belongs to the inputs of a join"),
        ("SELECT max(a) FROM M [RANGE 1 s, CLOSED]", 22, "CLOSED belongs to the inputs of a join"),
        ("SELECT max(a) [RANGE 1 s, WA ts, EARLY 0 s] FROM M", 40, "EARLY must be more than 0."),
        ("SELECT max(a) [SESSION 9 s, WA ts, EARLY 0 s] FROM M", 42, "EARLY must be more than 0."),
        ("SELECT a [RANGE 0 s, WA ts] FROM M", 17, "RANGE must be more than 0."),
        ("SELECT a [RANGE 5 s, SLIDE 0.0 s] FROM M", 28, "SLIDE must be more than 0."),
        ("SELECT a [RANGE 0.5 ns] FROM M", 17, "0.5 ns is no whole number of nanoseconds; nothing finer"),
        ("SELECT a [RANGE TUMBLING 5 s, SLIDE 5 s] FROM M", 10, "a TUMBLING window moves by its RANGE"),
        ("SELECT a [SESSION 5 s, SLIDE 1 s] FROM M", 10, "a SESSION ends where a gap begins; it has no SLIDE."),
        ("SELECT a [RANGE 5 s, RATTR ts] FROM M", 10, "this window has RATTR but no SATTR."),
        ("SELECT a [RANGE 5 s, WA ts, SATTR x] FROM M", 29, "WA stands for both RATTR and SATTR"),
        ("SELECT a [RANGE 5 s] FROM M [RANGE 6 s]", 29, "this is a second window for one query"),
        ("SELECT a FROM (M AS x) AS y", 16, 'this has two names, "x" and "y".'),
        ("SELECT a FROM A, B, ", 19, 'expected the name of a stream after ","'),
        ("SELECT a FROM M WHERE a = 18446744073709551616", 27, "this integer is too large"),
        ("SELECT a FROM M WHERE a = " + "9" * 5_000, 27, "this integer is too large"),
        ("SELECT a FROM M WHERE a = 1e999", 27, "this number is too large for a 64-bit float."),
        ("SELECT a FROM M WHERE a = 1 = 2", 29, "expected an operator, GROUP BY, HAVING, ORDER BY, LIMIT or the end"),
        ("SELECT `` FROM M", 8, "a name in back-quotes cannot be empty."),
        ("SELECT `a FROM M", 8, "the name that ` opens here never ends."),
        ("SELECT a # b FROM M", 10, 'an operator, AS or FROM, found "#".'),
        ("SELECT a FROM M ORDER BY a LIMIT '3'", 34, "expected a whole number, found \"'3'\"."),
        ("SELECT a FROM M ORDER BY a LIMIT", 33, "expected a whole number, found the end of the query."),
        ("SELCT a FROM M", 1, 'expected SELECT or WITH, found "SELCT".'),
    ],
)
def test_what_a_grammar_cannot_say_is_refused_at_its_place(text: str, column: int, message: str) -> None:
    with pytest.raises(LanguageError) as caught:
        parse(text)
    assert message in caught.value.message
    assert (caught.value.line, caught.value.column) == (1, column)


def test_a_later_stage_points_at_a_node() -> None:
    query = parse("SELECT count(*)\nFROM Main\nWHERE sorceIP = 1")
    assert isinstance(query.where, s.Binary)
    error = LanguageError.at(
        query.where.l.span, 'Main has no attribute "sorceIP".', query.text, hint='Did you mean "srcIP"?'
    )
    assert isinstance(error, ValueError)
    assert (error.line, error.column) == (3, 7)
    assert str(error) == (
        'line 3, column 7: Main has no attribute "sorceIP".\n'
        "  WHERE sorceIP = 1\n"
        "        ^^^^^^^\n"
        '  Did you mean "srcIP"?'
    )


@pytest.mark.parametrize("word", ["LEFT", "full", "anti"])
def test_who_asks_for_half_a_join_is_told_which_there_are(word: str) -> None:
    with pytest.raises(LanguageError) as caught:
        parse(f"SELECT * FROM A [RANGE 1 s, WA ts] {word} B [RANGE 1 s, WA ts] ON A.x = B.x")
    assert caught.value.hint.startswith("Joins are JOIN, LEFT JOIN, RIGHT JOIN, FULL JOIN, SEMI JOIN and ANTI JOIN")


@pytest.mark.parametrize(
    ("text", "python"),
    [
        ("SELECT count(*) [WA ts BAND 3 s] FROM M", "[BAND 1 hour FROM '2013-05-02T20:00:00Z', WA ts]"),
        ("SELECT count(*) [WA ts MARKED f] FROM M", "[MARKED BY flag, WA ts]"),
        ("SELECT count(*) [RANGE month, WA ts] FROM M", "stream.window(oop.edges(next_edge))"),
        ("SELECT count(*) [RANGE 3 s, WA ts, GRACE 3 s] FROM M", "[RANGE 1 minute, WA ts, LATENESS 30 s]"),
        ("SELECT count(*) [RANGE 3 s, WA ts] FROM M LATENESS 3 s", "[RANGE 1 minute, WA ts, LATENESS 30 s]"),
        ("SELECT count(*) [RANGE 3 s, WA ts EMPTY] FROM M", "[RANGE 1 minute, WA ts, EMPTY]"),
        ("SELECT count(*) [RANGE 3 s] CONSISTENT FROM M", "[RANGE 1 minute, WA ts, CONSISTENT]"),
        ("SELECT count(*) [RANGE 3 s] FROM M STRATEGY panes", "[RANGE 1 minute, WA ts, STRATEGY panes]"),
        ("SELECT count(*) [RANGE 3 s, IDLE] FROM M", "NO IDLE"),
        ("SELECT count(*) [RANGE 3 s, ORDER BY ts] FROM M", 'stream.reorder(slack="2 s")'),
        ("SELECT count(*) [RANGE 3 s] FROM M REORDER", 'stream.reorder(slack="2 s")'),
        ("SELECT sum(bytes) [RANGE 3 s] SPREAD bytes FROM M", "FROM Flows SPREAD bytes OVER ts, end_ts BY 1 s"),
        ("SELECT count(*) [RANGE 3 s], [RANGE 5 s] FROM M", "[SESSION 5 s, WA ts] AS burst"),
        ("SELECT count(*) [RANGE 3 s] [RANGE 5 s] FROM M", "[SESSION 5 s] AS burst"),
        ("SELECT count(*) [RANGE 3 s] FROM M [RANGE 5 s]", "[SESSION 5 s] AS a"),
        ("SELECT count(*) [SLIDING 3 s] FROM M", "[RANGE 10 minutes, SLIDE 1 minute, WA ts]"),
        ("SELECT count(*) OVER (PARTITION BY k) FROM M", "[RANGE 1 minute, WA ts]"),
    ],
)
def test_what_the_language_does_not_say_is_told_where_it_is_said(text: str, python: str) -> None:
    with pytest.raises(LanguageError) as caught:
        parse(text)
    assert python in caught.value.hint and caught.value.line == 1


def test_words_of_windows_stay_names_outside_of_brackets() -> None:
    query = parse("SELECT latest, month [RANGE 3 s, WA band, PA (late, marked)] FROM order AS own WHERE sort > 1")
    assert query.window is not None and query.window.partition == (s.Name(("late",)), s.Name(("marked",)))


def test_a_node_made_in_python_gives_the_bare_sentence() -> None:
    assert str(LanguageError.at(s.Name(("x",)).span, "no x here.", "")) == "no x here."


@given(st.text("ab \t(é", max_size=200), st.integers(1, 200), st.integers(1, 200))
def test_the_carets_stand_under_the_offence_within_78_columns(line: str, column: int, length: int) -> None:
    text = line.ljust(column, "a")
    # A mark at the place, so that the shown text can be checked against the caret.
    text = text[: column - 1] + "!" + text[column:]
    told = str(LanguageError.at(Span(2, column, column + length), "no.", f"first\n{text}\nlast")).split("\n")
    assert told[0] == f"line 2, column {column}: no."
    shown, carets = told[1], told[2]
    assert max(len(shown), len(carets)) <= 78
    assert set(carets) <= {" ", "^"}
    assert "^" in carets
    assert shown[carets.index("^")] == "!"
    if len(text.rstrip()) <= 76 and column + length <= 76:
        assert shown == "  " + text.replace("\t", " ").rstrip()
