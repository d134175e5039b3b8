# SPDX-License-Identifier: Apache-2.0
"""One function on its way from QDQ to integers: what is known of its values, and the bindings emitted so far."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from tvm import relax
from tvm.ir import Call, Expr, GenericConst, Op, Var
from tvm.relax import op as R  # noqa: N812 (the name that TVMScript has)

from relay_passes.integerize.numerics import Floats, Numerics, Routine
from relay_passes.integerize.values import Quantized, Refusal, Sum, static_shape
from relay_passes.ir.sources import Names, union, with_source

_INT32_MAX = 2**31 - 1


class Context:
    """The state of the pass on one function.

    Attributes:
        numerics: The definitions.
        definitions: Each variable's call in the function as it was.
        constants: Variables of the function that this pass found to be constant.
        quantized: Float variables that integers stand for.
        sums: Float variables that accumulators stand for.
        splits: Variables bound to a split: the integer tuple in its place, and the quantisation of its fields.
        refusals: Why a variable's call has no integer form.
        created: Variables that this pass bound.
        bindings: The new bindings of the current block.
    """

    def __init__(self, builder: relax.BlockBuilder, numerics: Numerics) -> None:
        self.numerics = numerics
        self.definitions: dict[Var, Call] = {}
        self.constants: dict[Var, GenericConst] = {}
        self.quantized: dict[Var, Quantized] = {}
        self.sums: dict[Var, Sum] = {}
        self.splits: dict[Var, tuple[Var, Quantized]] = {}
        self.refusals: dict[Var, Refusal] = {}
        self.created: set[Var] = set()
        self.bindings: list[relax.Binding] = []
        self._builder = builder

    def emit(self, expr: Expr, *names: Names) -> Var:
        """Bind `expr`, a call or an item of variables and constants, and name it after source nodes."""
        expr = self._builder.normalize(expr)
        var = relax.DataflowVar("lv", expr.ty)
        value = with_source(expr, union(names)) if isinstance(expr, Call) else expr
        self.bindings.append(relax.VarBinding(var, value))
        self.created.add(var)
        return var

    def call(self, routine: Routine, args: Sequence[Expr], like: Expr, dtype: str, *names: Names) -> Var:
        """Bind a call of `routine`; its result has the shape of `like`."""
        gvar = self._builder.add_func(routine.func, str(routine.func.attrs["numerics"]).replace(".", "_"))
        # Without a dtype, `const` takes int64 for int32.
        constants = [relax.const(array, str(array.dtype)) for array in routine.constants]
        out = relax.TensorType(static_shape(like), dtype)
        return self.emit(relax.call_tir(gvar, [*args, *constants], out), *names)

    def rebind(self, var: Var, expr: Expr, *names: Names) -> None:
        """Bind the function's own variable to a new value."""
        if isinstance(expr, GenericConst):
            self.constants[var] = expr
        expr = self._builder.normalize(expr)
        value = with_source(expr, union(names)) if isinstance(expr, Call) else expr
        self.bindings.append(relax.VarBinding(var, value))
        self.created.add(var)

    def definition(self, expr: Expr) -> Call | None:
        """The call that computed a variable in the function as it was."""
        return self.definitions.get(expr) if isinstance(expr, Var) else None

    def known(self, expr: Expr) -> Quantized | None:
        """The integers that stand for a float variable."""
        return self.quantized.get(expr) if isinstance(expr, Var) else None

    def constant(self, expr: Expr) -> npt.NDArray[np.float64] | None:
        """The real numbers of a float tensor that is known at compile time."""
        known = self.known(expr)
        if known is not None and known.constant is not None:
            return np.asarray(
                (known.constant.astype(np.int64) - known.zero_point) * known.scale.astype(np.float64)
            )
        if isinstance(expr, GenericConst):
            value: npt.NDArray[np.float64] = expr.value.numpy().astype(np.float64)
            return value
        return None

    def total(self, value: Sum) -> Var:
        """The accumulators of a sum with its offset added, wide enough to hold them."""
        total = value.value
        if not value.offset.any():
            return total
        dtype = str(total.ty.dtype)
        if dtype == "int32" and value.magnitude + int(np.abs(value.offset).max()) > _INT32_MAX:
            dtype = "int64"
            total = self.emit(R.astype(total, dtype), value.names)
        # Without a dtype, `const` takes int64 for int32.
        return self.emit(R.add(total, relax.const(value.offset.astype(dtype), dtype)), value.names)

    def scaled(self, value: Sum) -> Expr:
        """The real numbers that the accumulators of a sum of products stand for."""
        real = self.emit(R.astype(self.total(value), "float32"), value.names)
        scale: Floats = self.numerics.scale(value.input_scale, value.weight_scale)
        return R.multiply(real, relax.const(scale))


def operator(expr: Expr) -> str:
    """The Relax operator of a call without "relax.", or "" for anything else."""
    if not isinstance(expr, Call) or not isinstance(expr.op, Op):
        return ""
    return str(expr.op.name).removeprefix("relax.")


def accumulator_dtype(magnitude: int) -> str:
    """The integer dtype that holds sums up to +-magnitude."""
    return "int32" if magnitude <= _INT32_MAX else "int64"


def integers(values: Iterable[Any]) -> list[int]:
    """Attributes of a call as Python integers."""
    return [int(value) for value in values]
