"""Durations are read exactly and written as people write them."""

from __future__ import annotations

import decimal

import hypothesis.strategies as st
import pytest
from hypothesis import example, given

from oop_engine.language import Duration, LanguageError, format_duration, parse_duration
from oop_engine.plan.durations import DAY, HOUR, LARGEST, MICROSECOND, MILLISECOND, MINUTE, SECOND
from operators.data.durations import TIME_UNITS, duration_ns
from operators.errors import SchemaError


@pytest.mark.parametrize(
    ("text", "value", "unit"),
    [
        ("10 minutes", 10 * MINUTE, "ns"),
        ("10 min", 10 * MINUTE, "ns"),
        ("64 s", 64 * SECOND, "ns"),
        ("64 sec", 64 * SECOND, "ns"),
        ("600 Seconds", 600 * SECOND, "ns"),
        ("500 ms", 500 * MILLISECOND, "ns"),
        ("6.4 s", 6_400 * MILLISECOND, "ns"),
        ("1 hour", HOUR, "ns"),
        ("1 day", DAY, "ns"),
        ("2 us", 2 * MICROSECOND, "ns"),
        ("2 µs", 2 * MICROSECOND, "ns"),
        ("3 ns", 3, "ns"),
        ("2s", 2 * SECOND, "ns"),
        ("500ms", 500 * MILLISECOND, "ns"),
        (".5s", 500 * MILLISECOND, "ns"),
        ("0.000000001 s", 1, "ns"),
        ("2.0 rows", 2, "rows"),
        ("1000 rows", 1000, "rows"),
        ("1 row", 1, "rows"),
        ("1000 tuples", 1000, "rows"),
        ("1h30m", 90 * MINUTE, "ns"),
        ("1 hour 30 minutes", 90 * MINUTE, "ns"),
        ("1m 1.5s", 61_500 * MILLISECOND, "ns"),
        ("2 weeks 1d", 15 * DAY, "ns"),
        ("10", 10, "plain"),
        (" 007 ", 7, "plain"),
        (10, 10, "plain"),
    ],
)
def test_durations_are_read_as_the_papers_write_them(text: str | int, value: int, unit: str) -> None:
    duration = parse_duration(text)
    assert (duration.value, duration.unit) == (value, unit)


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "0 s"),
        (1, "1 ns"),
        (1_500, "1.5 us"),
        (500 * MILLISECOND, "500 ms"),
        (6_400 * MILLISECOND, "6.4 s"),
        (SECOND + 1, "1.000000001 s"),
        (64 * SECOND, "64 s"),
        (90 * SECOND, "90 s"),
        (MINUTE, "1 minute"),
        (10 * MINUTE, "10 minutes"),
        (HOUR, "1 hour"),
        (36 * HOUR, "36 hours"),
        (7 * DAY, "7 days"),
        (-5 * SECOND, "-5 s"),
    ],
)
def test_a_time_is_written_in_its_most_readable_unit(ns: int, text: str) -> None:
    assert format_duration(ns) == text


@given(st.one_of(st.integers(-LARGEST, LARGEST), st.integers(-10_000, 10_000).map(lambda n: n * MILLISECOND)))
def test_what_is_written_is_read_back_exactly(ns: int) -> None:
    assert parse_duration(format_duration(ns), signed=True) == Duration(ns, "ns", "")


@given(st.decimals(0, 10**6, places=9, allow_nan=False))
def test_fractions_of_a_second_are_exact(seconds: decimal.Decimal) -> None:
    assert parse_duration(f"{seconds:f} s").value == int(seconds.scaleb(9))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0.5 ns", "0.5 ns is no whole number of nanoseconds; nothing finer is measured."),
        ("0." + "0" * 40 + "1 s", "is no whole number of nanoseconds"),
        ("1.50 rows", "1.50 rows is no whole number of rows."),
        ("-3 s", 'a duration cannot be negative, found "-3 s".'),
        ("ten s", '"ten s" is no duration; write for example 10 minutes, 500 ms, 1000 rows.'),
        ("", '"" is no duration'),
        ("1e3 s", '"1e3 s" is no duration'),
        ("1:30", '"1:30" is no duration'),
        ("1h30", '"1h30" is no duration'),
        ("1 h 30 rows", "30 rows is no time, and parts of one duration are times, as in 1 hour 30 minutes."),
        ("106000 days 2000 days", "106000 days 2000 days is too much; the most is 292 years."),
        ("1 month", '"month" has no fixed length; write days.'),
        ("293 years", '"years" has no fixed length; write days.'),
        ("107000 days", "107000 days is too much; the most is 292 years."),
        ("9" * 99_999, "is too much; the most is 9223372036854775807."),
    ],
)
def test_what_is_no_duration_is_refused(text: str, message: str) -> None:
    with pytest.raises(LanguageError) as caught:
        parse_duration(text)
    assert message in caught.value.message
    assert len(caught.value.message) < 200


def test_an_unknown_unit_is_pointed_at_with_what_was_meant() -> None:
    with pytest.raises(LanguageError) as caught:
        parse_duration("10 minuts")
    assert str(caught.value) == (
        "line 1, column 4: expected a unit such as ns, us, ms, s, min, hour, day, week or rows, "
        'found "minuts".\n'
        "  10 minuts\n"
        "     ^^^^^^\n"
        '  Did you mean "minutes"?'
    )


@given(st.text(max_size=12))
def test_any_text_is_a_duration_or_a_language_error(text: str) -> None:
    try:
        duration = parse_duration(text)
    except LanguageError:
        return
    assert 0 <= duration.value <= LARGEST
    assert parse_duration(str(duration)) == duration


numbers = st.from_regex(r"0{0,3}[0-9]{0,25}(\.[0-9]{0,12}0{0,70})?", fullmatch=True) | st.sampled_from(
    ["9" * 70, "1e3"]
)
units = st.sampled_from([*TIME_UNITS, "Week", "WEEKS", "month", "rows", "fortnight", ""])
gaps = st.sampled_from(["", " ", "  ", "\t", "-"])


@given(
    st.lists(st.tuples(gaps, numbers, gaps, units), min_size=1, max_size=3).map(lambda parts: "".join(sum(parts, ())))
)
@example("2 weeks")
@example("0" * 80 + "1 s")
@example("1." + "0" * 80 + " s")
def test_constants_and_windows_take_the_same_durations(text: str) -> None:
    try:
        exact = duration_ns(text)
    except SchemaError:
        exact = None
    try:
        read = parse_duration(text, signed=True)
    except LanguageError:
        read = None
    if exact is not None and exact.denominator == 1 and abs(exact) <= LARGEST:
        assert read == Duration(int(exact), "ns", "")
    else:
        assert read is None or read.unit != "ns"
