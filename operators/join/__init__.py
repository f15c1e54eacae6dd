"""Window joins: tuples of two inputs that are near in time and equal in their keys."""

from operators.join.flushed import FlushedJoin
from operators.join.oa import OAJoin
from operators.join.ordered import OPIBJoin, OPOBJoin
from operators.join.widjoin import Steps, WidJoin, WidRelation
from operators.join.window import Band, JoinWindow, SameWindow

__all__ = [
    "Band",
    "FlushedJoin",
    "JoinWindow",
    "OAJoin",
    "OPIBJoin",
    "OPOBJoin",
    "SameWindow",
    "Steps",
    "WidJoin",
    "WidRelation",
]
