"""Measurements of workloads of later papers: late blocks, many queries, promises by key, slack that is learnt,
results that make up for what is missing, and queries a core."""

from typing import Final

from oop_engine.figures.beyond.bulk import BULK
from oop_engine.figures.beyond.cores import LIGHTSABER
from oop_engine.figures.beyond.keyed import KEYED_PROMISES
from oop_engine.figures.beyond.quality import QUALITY
from oop_engine.figures.beyond.queries import MEMORY, QUERIES
from oop_engine.figures.beyond.speculation import PECJ
from oop_engine.figures.beyond.sustained import SUSTAINED
from oop_engine.figures.figure import Figure

FIGURES: Final[tuple[Figure, ...]] = (BULK, QUERIES, MEMORY, SUSTAINED, KEYED_PROMISES, QUALITY, PECJ, LIGHTSABER)
