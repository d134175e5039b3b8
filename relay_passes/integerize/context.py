# SPDX-License-Identifier: Apache-2.0
"""The state of `integerize` for one function: the known quantised values, and the bindings emitted so far."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from tvm import relax
from tvm.ir import Call, Expr, GenericConst, Op, Var
from tvm.relax import op as R  # noqa: N812 (the name that TVMScript has)

from relay_passes.integerize.numerics import Floats, Numerics, Routine
from relay_passes.integerize.values import Quantized, Sum, TableLookup, static_shape
from relay_passes.ir.sources import Names, union, with_source
from schedules.diagnostic import Diagnostic

_INT32_MAX = 2**31 - 1


class Context:
    """The state of the pass for one function.

    Attributes:
        numerics: Definitions of the quantised operators.
        definitions: Call of each variable, in the function before the pass.
        constants: Values of the variables that this pass found to be constant.
        quantized: Integers that replace each float variable, for variables with quantised values.
        sums: Accumulators that replace each float variable, for variables that are sums.
        tables: Table look-up of each 8-bit variable that is computed by a table from another variable.
        readers: The variables that are computed from each variable, in the function before the pass.
        splits: For each variable bound to a split, the integer tuple that replaces it, and the quantisation of its
            fields.
        refusals: Why the call of a variable has no integer form.
        created: The variables that this pass created.
        bindings: The new bindings of the current block.
    """

    def __init__(self, builder: relax.BlockBuilder, numerics: Numerics) -> None:
        self.numerics = numerics
        self.definitions: dict[Var, Call] = {}
        self.constants: dict[Var, GenericConst] = {}
        self.quantized: dict[Var, Quantized] = {}
        self.sums: dict[Var, Sum] = {}
        self.tables: dict[Expr, TableLookup] = {}
        self.readers: dict[Var, Sequence[Var]] = {}
        self.splits: dict[Var, tuple[Var, Quantized]] = {}
        self.refusals: dict[Var, Diagnostic] = {}
        self.created: set[Var] = set()
        self.bindings: list[relax.Binding] = []
        self._builder = builder

    def emit(self, expr: Expr, *names: Names) -> Var:
        """Bind an expression to a new variable; a call gets source names."""
        expr = self._builder.normalize(expr)
        var = relax.DataflowVar("lv", expr.ty)
        value = with_source(expr, union(names)) if isinstance(expr, Call) else expr
        self.bindings.append(relax.VarBinding(var, value))
        self.created.add(var)
        return var

    def call(self, routine: Routine, args: Sequence[Expr], like: Expr, dtype: str, *names: Names) -> Var:
        """Bind a call of `routine` to a new variable; the result has the shape of `like`."""
        gvar = self._builder.add_func(routine.func, str(routine.func.attrs["numerics"]).replace(".", "_"))
        # Without a dtype, `relax.const` would narrow int64 to int32.
        constants = [relax.const(array, str(array.dtype)) for array in routine.constants]
        out = relax.TensorType(static_shape(like), dtype)
        return self.emit(relax.call_tir(gvar, [*args, *constants], out), *names)

    def rebind(self, var: Var, expr: Expr, *names: Names) -> None:
        """Bind a variable of the original function to a new value."""
        if expr in self.tables:
            self.tables[var] = self.tables[expr]
        if isinstance(expr, GenericConst):
            self.constants[var] = expr
        expr = self._builder.normalize(expr)
        value = with_source(expr, union(names)) if isinstance(expr, Call) else expr
        self.bindings.append(relax.VarBinding(var, value))
        self.created.add(var)

    def definition(self, expr: Expr) -> Call | None:
        """Return the call that computes a variable in the original function; None if it is computed by no call."""
        return self.definitions.get(expr) if isinstance(expr, Var) else None

    def known(self, expr: Expr) -> Quantized | None:
        """Return the quantised tensor that replaces a float variable; None if there is none."""
        return self.quantized.get(expr) if isinstance(expr, Var) else None

    def constant(self, expr: Expr) -> npt.NDArray[np.float64] | None:
        """Return the real values, float64, of a float tensor that is known at compile time; None for others."""
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
        """Emit the addition of a sum's offset to its accumulators, in int64 if int32 could overflow."""
        total = value.value
        if not value.offset.any():
            return total
        dtype = str(total.ty.dtype)
        if dtype == "int32" and value.magnitude + int(np.abs(value.offset).max()) > _INT32_MAX:
            dtype = "int64"
            total = self.emit(R.astype(total, dtype), value.names)
        # Without a dtype, `relax.const` would narrow int64 to int32.
        return self.emit(R.add(total, relax.const(value.offset.astype(dtype), dtype)), value.names)

    def scaled(self, value: Sum) -> Expr:
        """Return a sum's accumulators converted to float32 and multiplied by their scale."""
        real = self.emit(R.astype(self.total(value), "float32"), value.names)
        scale: Floats = self.numerics.scale(value.input_scale, value.weight_scale)
        return R.multiply(real, relax.const(scale))


def operator(expr: Expr) -> str:
    """Return the name of the Relax operator that `expr` calls, without "relax."; "" for other expressions."""
    if not isinstance(expr, Call) or not isinstance(expr.op, Op):
        return ""
    return str(expr.op.name).removeprefix("relax.")


def accumulator_dtype(magnitude: int) -> str:
    """Return the smaller of "int32" and "int64" that holds sums up to +-magnitude."""
    return "int32" if magnitude <= _INT32_MAX else "int64"


def integers(values: Iterable[Any]) -> list[int]:
    """Convert attributes of a call to Python integers."""
    return [int(value) for value in values]
