"""A topic of Kafka as a URI names it, and the configuration of its clients."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import attrs

from oop_engine.sinks.addresses import Address
from oop_engine.sinks.errors import SinkError

EXAMPLE: Final = (
    "kafka://broker:9092/topic?format=json. Settings of the client with a dot in their names can follow, as"
    " &security.protocol=SSL; passwords go to a file of lines NAME=VALUE: &config=/etc/kafka/client.conf."
)
MISSING: Final = "the package confluent-kafka is not installed.\n  Run pip install 'oop-engine[kafka]'."


@attrs.frozen
class KafkaPlace:
    """A topic, the `form` of its messages ("json" or "arrow"), and further settings of the client."""

    address: Address = attrs.field(repr=False)
    servers: str
    topic: str
    form: str = "json"
    config: Mapping[str, str] = attrs.field(factory=dict, repr=False)

    @classmethod
    def of(cls, text: str, known: tuple[str, ...]) -> KafkaPlace:
        """Read kafka://HOST:PORT,.../TOPIC?format=json; SinkError for other parts.

        >>> KafkaPlace.of("kafka://a:9092,b:9092/flows?format=arrow", ())
        KafkaPlace(servers='a:9092,b:9092', topic='flows', form='arrow')
        """
        address = Address.of(text, ("format", "config", *known), EXAMPLE, others=True)
        topic, form = address.parts.path.strip("/"), address.options.get("format", "json")
        config = {name: value for name, value in address.options.items() if "." in name}
        wrong = [n for n in address.options if n not in ("format", "config", *known) and n not in config]
        if wrong or not topic or "/" in topic or form not in ("json", "arrow"):
            seen = f'"{wrong[0]}" is no option here' if wrong else f"the format {form} is none of json, arrow"
            seen = seen if topic and "/" not in topic else "it names no topic"
            raise SinkError(f'"{text}": {seen}.\n  Write {EXAMPLE}')
        return cls(address, address.host, topic, form, {**_file(address.options.get("config")), **config})

    def __str__(self) -> str:
        return f"kafka://{self.servers}/{self.topic}"

    def client(self, **own: object) -> dict[str, object]:
        """Return the configuration of a client; what is needed here cannot be set otherwise."""
        named = {name.replace("_", "."): value for name, value in own.items()}
        # Errors come to where results are sent or messages read; the log would say them to the terminal.
        return {"log_level": 0, **self.config, "bootstrap.servers": self.servers, **named}


def _file(path: str | None) -> dict[str, str]:
    """Read lines NAME=VALUE; those that begin with # say nothing."""
    if path is None:
        return {}
    try:
        lines = Path(path).expanduser().read_text("utf-8").splitlines()
    except OSError as error:
        raise SinkError(f'"{path}" cannot be read: {error.strerror}.\n  It should have settings of Kafka.') from error
    pairs = (line.partition("=") for line in map(str.strip, lines) if line and not line.startswith("#"))
    return {name.strip(): value.strip() for name, _, value in pairs}
