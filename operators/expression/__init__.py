"""An expression is a small tree over attributes, checked against a schema once and evaluated a page at a time."""

from operators.expression.bound import Bound
from operators.expression.tracing import Opaque, Tracer, Ufunc, trace
from operators.expression.tree import (
    Between,
    Binary,
    Call,
    Cast,
    Column,
    Comparison,
    Constant,
    Expression,
    InNetwork,
    IsIn,
    IsNull,
    Literal,
    Logical,
    Not,
    Null,
    Unary,
    as_expression,
)

__all__ = [
    "Between",
    "Binary",
    "Bound",
    "Call",
    "Cast",
    "Column",
    "Comparison",
    "Constant",
    "Expression",
    "InNetwork",
    "IsIn",
    "IsNull",
    "Literal",
    "Logical",
    "Not",
    "Null",
    "Opaque",
    "Tracer",
    "Ufunc",
    "Unary",
    "as_expression",
    "trace",
]
