"""Input against a loop over tuples: the same counts, tuples and promises at any page size, under every policy."""

from __future__ import annotations

import datetime

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from operators.data.page import Page
from operators.data.schema import Schema, ip_field
from operators.drive import drive, punctuations, rows
from operators.errors import SchemaError
from operators.protocol import Measured, Operator
from operators.streams.input import Input
from punctuation import (
    END,
    NEVER,
    NO_TIME,
    Below,
    BlockEnd,
    Embedded,
    Equals,
    Heartbeat,
    Ordered,
    Progress,
    Punctuation,
    Scheduled,
    Slack,
    StreamViolation,
    SuffixMinimum,
    TupleSlack,
    Unfolding,
    before,
)

SCHEMA = Schema.of(ts=pa.int64(), end=pa.int64(), k=pa.string())
TIMES = Schema(pa.schema([pa.field("ts", pa.timestamp("ns", tz="UTC")), ip_field("srcIP")]))

maybe_time = st.one_of(st.integers(0, 30), st.none())
tuples = st.tuples(maybe_time, maybe_time, st.sampled_from(["a", "b", None]))
promises = st.one_of(
    st.integers(0, 30).map(lambda v: before("ts", v)),
    st.integers(0, 30).map(lambda v: before("end", v)),
    st.tuples(st.sampled_from("ab"), st.integers(0, 30)).map(
        lambda kv: Punctuation({"k": Equals(kv[0]), "ts": Below(kv[1])})
    ),
    st.sampled_from("ab").map(lambda k: Punctuation({"k": Equals(k)})),
    st.tuples(st.integers(0, 30), st.integers(0, 30)).map(
        lambda te: Punctuation({"ts": Below(te[0]), "end": Below(te[1])})
    ),
)
scripts = st.lists(st.one_of(tuples, tuples, tuples, promises), max_size=30)
sizes = st.sampled_from([1, 2, 3, 7, 100])


def punctuators(choice):
    return {
        "none": (),
        "slack": (Slack("ts", 3, step=2),),
        "ordered": (Ordered("end", every=3),),
        "two attributes": (Slack("ts", 4), Ordered("end", step=5)),
        "two on one": (Slack("ts", 8), TupleSlack("ts", 2, every=2)),
    }[choice]


choices = st.sampled_from(["none", "slack", "ordered", "two attributes", "two on one"])


def cut(script, size):
    """Make pages of at most `size` tuples of a script of tuples and punctuations."""
    held, elements = [], []
    for step in [*script, None]:
        if step is None or isinstance(step, Punctuation) or len(held) == size:
            if held:
                elements.append(Page.of_rows(SCHEMA, held))
                held = []
            if isinstance(step, Punctuation):
                elements.append(step)
        if isinstance(step, tuple):
            held.append(step)
    return elements


def naive(script, kinds):
    """Go through a script tuple by tuple: what leaves, in order, and the numbers of the tuples that were late."""
    made, out, late, number, untimed, stale = [], [], [], 0, 0, 0
    progress = Progress()

    def promise(p):
        if not progress.advance(p):
            return False
        made.append(p)
        out.append(p)
        return True

    for step in script:
        if isinstance(step, Punctuation):
            stale += not promise(step)
            continue
        row = dict(zip(SCHEMA.names, step, strict=True))
        if any(p.matches(row) for p in made):
            late.append(number)
        else:
            out.append(row)
        untimed += any(row[a] is None for a in {p.attribute for p in kinds})
        number += 1
        seen = {}
        for p in kinds:
            value = row[p.attribute]
            _, bounds = p.observe(np.array([NO_TIME if value is None else value]))
            for b in bounds.tolist():
                seen[p.attribute] = max(b, seen.get(p.attribute, b))
        for attribute, bound in seen.items():
            promise(before(attribute, bound))
    return out, late, untimed, stale


def flat(elements):
    return [step for e in elements for step in (e.rows() if isinstance(e, Page) else [e])]


@settings(deadline=None)
@given(scripts, choices, sizes)
def test_a_page_is_treated_as_its_tuples_one_by_one(script, choice, size):
    read = Input(punctuators(choice))
    emitted = drive(read, cut(script, size))
    out, late, untimed, stale = naive(script, punctuators(choice))
    assert flat(emitted) == out
    statistics = read.statistics()
    assert statistics == {
        "tuples": sum(isinstance(s, tuple) for s in script),
        "late": len(late),
        "untimed": untimed,
        "stale": stale,
        "promises": sum(isinstance(s, Punctuation) for s in out),
    }
    assert all(len(e) for e in emitted if isinstance(e, Page))


@settings(deadline=None)
@given(scripts, choices, sizes, st.integers(1, 9), st.sampled_from(["drop", "revise"]), st.sampled_from([0, 3]))
def test_pieces_leave_the_same_tuples_and_promise_as_much_by_the_end_of_a_page(
    script, choice, size, piece, policy, allow
):
    allow = allow if policy == "drop" else 0
    exact = Input(punctuators(choice), late=policy, allow=allow)
    thin = Input(punctuators(choice), late=policy, allow=allow, piece=piece)
    for element in cut(script, size):
        every, fewer = drive(exact, [element]), drive(thin, [element])
        assert rows(every) == rows(fewer) and exact.progress == thin.progress
        made = punctuations(fewer)
        assert all(p in punctuations(every) for p in made)
        counts = [{k: v for k, v in one.statistics().items() if k != "promises"} for one in (exact, thin)]
        assert counts[0] == counts[1]
        if counts[0].get("behind"):
            continue
        for attribute in {p.attributes[0] for p in made} if isinstance(element, Page) else ():
            assert sum(p.attributes[0] == attribute for p in made) <= -(-len(element) // piece)


@pytest.mark.parametrize(("piece", "pages"), [(1, [1, 1, 2, 2, 1, 1]), (4, [4, 4]), (5, [5, 3]), (100, [8])])
def test_within_a_piece_only_the_last_promise_is_made(piece, pages):
    read = Input((Slack("ts", 0, step=10),), piece=piece)
    page = Page.of(Schema.of(ts=pa.int64()), {"ts": [1, 11, 12, 22, 23, 31, 45, 46]})
    emitted = drive(read, [page])
    assert [len(e) for e in emitted if isinstance(e, Page)] == pages
    # The promise is made behind the last tuple of its piece, so that none is left over for a page of its own.
    last = emitted[-2:] if piece == 1 else emitted[:-3:-1]
    assert last[0] == before("ts", 40) and last[1]["ts"].tolist()[-1] == 46


def test_late_tuples_are_told_by_the_promises_that_are_not_made():
    page = Page.of(Schema.of(ts=pa.int64()), {"ts": [1, 11, 9, 25, 19, 26]})
    read = Input((Slack("ts", 0, step=10),), piece=100)
    assert [row["ts"] for row in rows(drive(read, [page]))] == [1, 11, 25, 26] and read.statistics()["late"] == 2
    revised = drive(Input((Slack("ts", 0, step=10),), late="revise", piece=100), [page])
    assert flat(revised) == flat(drive(Input((Slack("ts", 0, step=10),), late="revise"), [page]))
    behind = drive(Input((Slack("ts", 0, step=10),), allow=1, piece=100), [page])
    assert flat(behind) == flat(drive(Input((Slack("ts", 0, step=10),), allow=1), [page]))


@settings(deadline=None)
@given(scripts, choices, sizes)
def test_diverted_tuples_carry_their_number_and_a_promise_they_broke(script, choice, size):
    pages = []
    read = Input(punctuators(choice), late="divert", diverted=pages.append)
    emitted = drive(read, cut(script, size))
    out, late, _, _ = naive(script, punctuators(choice))
    assert flat(emitted) == out
    diverted = [row for page in pages for row in page.rows()]
    assert [row["tuple"] for row in diverted] == late
    tuples_read = [step for step in script if isinstance(step, tuple)]
    for row in diverted:
        original = tuples_read[row["tuple"]]
        assert tuple(row[name] for name in SCHEMA.names) == original
        (promise,) = [p for p in punctuations(out) if str(p) == row["broken"]][:1] or [None]
        assert promise is not None, row["broken"]
        assert promise.matches(row)


@settings(deadline=None)
@given(scripts, choices, sizes, sizes)
def test_the_promise_in_a_diverted_tuple_does_not_depend_on_pages(script, choice, size, other):
    seen = []
    for s in (size, other):
        pages = []
        drive(Input(punctuators(choice), late="divert", diverted=pages.append), cut(script, s))
        seen.append([row for page in pages for row in page.rows()])
    assert seen[0] == seen[1]


@settings(deadline=None)
@given(scripts, choices, sizes)
def test_revise_passes_late_tuples_on_and_counts_them_as_behind(script, choice, size):
    read = Input(punctuators(choice), late="revise")
    emitted = drive(read, cut(script, size))
    _, late, _, _ = naive(script, punctuators(choice))
    assert len(rows(emitted)) == sum(isinstance(s, tuple) for s in script)
    assert (read.statistics()["behind"], read.statistics()["late"]) == (len(late), 0)


@settings(deadline=None)
@given(scripts, choices, sizes)
def test_refuse_stops_at_the_first_late_tuple_with_everything_before_it_emitted(script, choice, size):
    out, late, _, _ = naive(script, punctuators(choice))
    read, emitted = Input(punctuators(choice), late="refuse", name="link2"), []
    try:
        for element in cut(script, size):
            read.process(element, emitted.append) if isinstance(element, Page) else read.punctuate(
                element, emitted.append
            )
    except StreamViolation as violation:
        assert f"link2 broke its promise: tuple {late[0]} (page" in str(violation)
        assert flat(emitted) == out[: len(flat(emitted))]
        assert len(rows(emitted)) == late[0]
    else:
        assert not late
        assert flat(emitted) == out


@settings(deadline=None)
@given(scripts, choices, sizes, st.integers(0, 30))
def test_saved_and_restored_it_goes_on_as_if_nothing_had_happened(script, choice, size, where):
    elements = cut(script, size)
    whole, first, second = (Input(punctuators(choice)) for _ in range(3))
    expected = drive(whole, elements)
    head = drive(first, elements[:where])
    second.restore(first.state())
    assert flat(head + drive(second, elements[where:])) == flat(expected)
    assert second.statistics() == whole.statistics()


@settings(deadline=None)
@given(st.lists(st.integers(0, 40), min_size=1, max_size=30), st.randoms(use_true_random=False), sizes)
def test_with_an_exact_schedule_nothing_is_late_and_every_promise_is_true(values, random, size):
    random.shuffle(values)
    collected = SuffixMinimum(step=4)
    collected.feed(np.array(values))
    read = Input((Scheduled("ts", collected.finish()),))
    emitted = flat(drive(read, [*cut([(v, 0, "a") for v in values], size), END]))
    assert read.statistics()["late"] == 0
    assert emitted[-1] == END
    for i, step in enumerate(emitted):
        if isinstance(step, Punctuation):
            assert not any(step.matches(r) for r in emitted[i:] if isinstance(r, dict))


@settings(deadline=None)
@given(st.lists(maybe_time, min_size=1, max_size=30), st.integers(0, 30), st.integers(0, 45), sizes)
def test_values_that_an_outline_was_checked_against_break_other_promises_alone(values, place, bound, size):
    ticks = np.array([NO_TIME if v is None else v for v in values])
    pieces = [ticks[at : at + size] for at in range(0, len(ticks), size)]
    lengths, leasts = (np.array(of) for of in zip(*((len(p), _least(p)) for p in pieces), strict=True))
    unfolding, collected = Unfolding(lengths, leasts, step=4), SuffixMinimum(step=4)
    for piece in pieces:
        unfolding.feed(piece)
        collected.feed(piece)
    script = [(v, 0, "a") for v in values]
    script.insert(place, before("ts", bound))
    checked = Input((Scheduled("ts", collected.finish()),))
    spared = Input((Scheduled("ts", unfolding),))
    elements = [*cut(script, size), END]
    assert flat(drive(spared, elements)) == flat(drive(checked, elements))
    assert spared.statistics() == checked.statistics()
    # Tuples behind the promise that are below it are late, and no others are.
    late = sum(v is not None and v < bound for v in values[place:])
    assert spared.statistics()["late"] == late


def _least(ticks):
    return ticks[ticks != NO_TIME].min(initial=NEVER)


@settings(deadline=None)
@given(st.lists(st.tuples(maybe_time, st.sampled_from(["a", "b", None]), st.booleans()), max_size=30), sizes)
def test_embedded_promises_are_taken_out_of_the_stream(script, size):
    schema = Schema.of(ts=pa.int64(), k=pa.string(), mark=pa.bool_())
    marks = Embedded("ts", marker="mark", group=("k",))
    read = Input((marks,))
    assert read.output_schema(schema) == Schema.of(ts=pa.int64(), k=pa.string(), progress=[{"ts"}, {"ts", "k"}])
    pages = [Page.of_rows(schema, script[i : i + size]) for i in range(0, len(script), size)]
    emitted = flat(drive(read, pages))
    made, out, late, stale, progress = [], [], 0, 0, Progress()
    for ts, k, mark in script:
        if not mark:
            row = {"ts": ts, "k": k}
            if any(p.matches(row) for p in made):
                late += 1
            else:
                out.append(row)
            continue
        patterns = ({} if k is None else {"k": Equals(k)}) | ({} if ts is None else {"ts": Below(ts)})
        p = Punctuation(patterns)
        if not patterns or not progress.advance(p):
            stale += 1
        else:
            made.append(p)
            out.append(p)
    assert emitted == out
    assert (read.statistics()["late"], read.statistics()["stale"]) == (late, stale)


def test_pieces_of_a_page_share_its_memory():
    page = Page.of(SCHEMA, {"ts": list(range(100)), "end": [0] * 100, "k": ["a"] * 100})
    pieces = [e for e in drive(Input((Ordered("ts", step=10),)), [page]) if isinstance(e, Page)]
    assert len(pieces) == 11
    address = page.column("ts").buffers()[1].address
    assert all(piece.column("ts").buffers()[1].address == address for piece in pieces)
    assert drive(Input((Ordered("ts", every=1000),)), [page]) == [page]


def test_a_violation_says_what_was_promised_and_what_to_write():
    hour = datetime.datetime(2026, 11, 21, 12, tzinfo=datetime.UTC)
    page = Page.of(
        TIMES,
        {
            "ts": [hour, hour - datetime.timedelta(seconds=116.8)],
            "srcIP": [bytes(16), bytes(16)],
        },
    )
    read = Input((Ordered("ts", step=60 * 10**9),), late="refuse", name="link2")
    with pytest.raises(StreamViolation) as caught:
        drive(read, [page])
    assert str(caught.value) == (
        "link2 broke its promise: tuple 1 (page 0) has ts = 2026-11-21T11:58:03.2Z\n"
        "  after the punctuation [ts < 2026-11-21T12:00:00Z]; it is 116.8 s behind: a slack larger by that allows it.\n"
        '  late="drop" counts and drops such tuples, late="divert" hands them over with the promise they broke.'
    )


def test_a_broken_group_promise_is_told_with_its_address():
    source = b"\0" * 10 + b"\xff\xff" + bytes([10, 0, 0, 7])
    pages = []
    read = Input(late="divert", diverted=pages.append)
    script = [
        Punctuation({"srcIP": Equals(source), "ts": Below(10**9)}),
        Page.of(TIMES, {"ts": [5, 10**9, 5], "srcIP": [source, source, bytes(16)]}),
    ]
    assert len(rows(drive(read, script))) == 2
    (late,) = pages[0].rows()
    assert late["broken"] == "[srcIP = 10.0.0.7, ts < 1970-01-01T00:00:01Z]"


def test_timers_are_forwarded_and_their_promises_are_marked_assumed():
    read, emitted = Input((Slack("ts", 1, lull=5), Heartbeat("end", {"a": (1, 1)}))), []
    read.elapse(20, emitted.append)
    assert [str(p) for p in emitted] == ["[ts < 15]", "[end < 18]"]
    assert all(p.assumed for p in emitted)
    read.elapse(20, emitted.append)
    assert len(emitted) == 2
    assert rows(drive(read, [Page.of_rows(SCHEMA, [(14, 18, "a"), (15, 17, "a"), (15, 18, "a")])])) == [
        {"ts": 15, "end": 18, "k": "a"}
    ]
    assert read.statistics()["late"] == 2


def test_numbered_blocks_are_read_from_their_attribute():
    schema = Schema.of(ts=pa.int64(), block=pa.int32())
    read = Input((BlockEnd("ts", block="block"),))
    page = Page.of(schema, {"ts": [3, 1, 2, 9, 7], "block": [0, 0, 0, 1, 1]})
    assert [str(e) if isinstance(e, Punctuation) else len(e) for e in drive(read, [page])] == [4, "[ts < 3]", 1]


def test_nothing_follows_the_end():
    read = Input()
    emitted = drive(read, [END, Page.of_rows(SCHEMA, [(1, 1, "a")]), END, before("ts", 9)])
    assert emitted == [END]
    assert read.statistics() == {"tuples": 1, "late": 1, "untimed": 0, "stale": 2, "promises": 1}


def test_the_schema_says_what_will_be_promised():
    read = Input((Slack("ts", 1), Ordered("end")))
    assert read.output_schema(Schema.of(ts=pa.int64(), end=pa.date32(), x=pa.string(), progress=["x"])).progress == {
        frozenset({"ts"}),
        frozenset({"end"}),
        frozenset({"x"}),
    }
    assert isinstance(read, Operator)
    assert isinstance(read, Measured)


@pytest.mark.parametrize(
    ("read", "words"),
    [
        (Input((Slack("tss", 1),)), 'no attribute "tss"'),
        (Input((Slack("k", 1),)), "progresses on an integer, a time or a decimal"),
        (Input((BlockEnd("ts", block="blok"),)), 'no attribute "blok"'),
        (Input((Embedded("ts", marker="k"),)), "must be a boolean"),
        (Input((Ordered("len"),)), 'called "length" here'),
    ],
)
def test_a_punctuator_that_does_not_fit_is_refused_at_assembly(read, words):
    with pytest.raises(SchemaError, match=words):
        read.output_schema(Schema.of(ts=pa.int64(), k=pa.string(), length=pa.int32()))


def test_policies_are_checked_when_they_are_written():
    with pytest.raises(ValueError, match="drop, refuse, divert, revise"):
        Input(late="ignore")
    with pytest.raises(ValueError, match="go together"):
        Input(late="divert")
    with pytest.raises(ValueError, match="go together"):
        Input(diverted=print)
    with pytest.raises(SchemaError, match='adds "broken"'):
        Input(late="divert", diverted=print).output_schema(Schema.of(broken=pa.string()))
