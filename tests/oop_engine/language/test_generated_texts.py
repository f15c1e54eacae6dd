"""No text ends in a traceback: it is a plan whose text means the same, or a refusal in words.

Each night tries a million texts; `python -m tests.fuzz.fuzz_texts` tries those of given seeds.
"""

from __future__ import annotations

import random
import re

import hypothesis.strategies as st
from hypothesis import Phase, given, settings

from oop_engine.language import LanguageError, parse
from oop_engine.language.parse import _grammar  # pyright: ignore[reportPrivateUsage]
from tests import examples
from tests.examples import share
from tests.fuzz.fuzz_texts import streams_of, text_of, tried
from tests.fuzz.grammar_texts import spelled, text_of_clauses

STREAMS = streams_of()
AFTER = {"_INTERVAL": " '1'", "_NEXT": "]", "_TIMESTAMP": " '1'", "WINDOWED": " ("}
"""What has to follow some words."""


@settings(share(1), phases=[Phase.explicit, Phase.generate])
@given(st.integers(0, 2**63))
def test_every_text_is_a_plan_or_is_refused_in_words(seed: int) -> None:
    random_ = random.Random(seed)
    for number in range(examples.chosen.texts):
        text = text_of(random_)
        try:
            tried(text, STREAMS, run=number % 50 == 0)
        except Exception as error:
            raise AssertionError(f"seed {seed}, text {number}: {text}") from error


def test_every_word_of_the_grammar_is_written_as_the_grammar_reads_it() -> None:
    for terminal in _grammar("start").terminals:
        if terminal.name not in ("BLANKS", "COMMENT"):
            for word in spelled(terminal.name):
                found = re.match(terminal.pattern.to_regexp(), word + AFTER.get(terminal.name, ""))
                assert found is not None and found.group() == word, terminal.name


def test_most_queries_that_are_made_by_clauses_parse() -> None:
    random_, parsed = random.Random(5), 0
    for _ in range(100):
        try:
            parse(text_of_clauses(random_))
            parsed += 1
        except LanguageError:
            continue
    assert parsed > 70
