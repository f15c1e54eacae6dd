"""Recognise topics of Kafka among the places that a user names; `oop_engine.sources.kafka` reads them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

KAFKA: Final = "kafka"


def is_kafka(place: object) -> bool:
    """Return whether a place that a user names is a topic of Kafka."""
    return isinstance(place, str) and place.lower().startswith(f"{KAFKA}:")


def is_endless(places: Iterable[object]) -> bool:
    """Return whether one of these places is a topic that is read without an end."""
    return any(is_kafka(place) and "until=end" not in str(place) for place in places)
