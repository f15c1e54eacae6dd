# pyright: reportMissingParameterType=false
"""Memory that will be needed is asked for ahead of time."""

from __future__ import annotations

import importlib
import typing as t
from collections.abc import Callable

from operators.kernels.compile.compiler import interpreted

LINE: t.Final = 64
"""Bytes that come together from memory."""


def _compiled() -> Callable[..., None]:
    ir = importlib.import_module("llvmlite.ir")
    types = importlib.import_module("numba.core.types")
    cgutils = importlib.import_module("numba.core.cgutils")

    def asked(typing, data, index):
        def generate(context, builder, signature, arguments):
            byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
            array = context.make_array(signature.args[0])(context, builder, arguments[0])
            place = builder.bitcast(builder.gep(array.data, [arguments[1]]), byte)
            kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
            instruction = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
            # To be read, and to stay in all caches, since it is data.
            builder.call(instruction, [place, number(0), number(3), number(1)])
            return context.get_dummy_value()

        return types.void(data, index), generate

    made: Callable[..., None] = importlib.import_module("numba.extending").intrinsic(asked)
    return made


def _nothing(data: t.Any, index: t.Any) -> None:
    pass


#: In compiled functions of arrays of bytes: ask for the line of memory that holds data[index], if there is any.
prefetch: Callable[..., None] = _nothing if interpreted() else _compiled()
