# SPDX-License-Identifier: Apache-2.0
"""Helpers that build Relax bindings and calls of functions that are imported one by one."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tvm import relax
from tvm.ir import Call, Expr, GlobalVar, TupleGetItem, Type, Var

from relay_passes.ir.sources import with_source


def call(symbol: str, args: Sequence[Expr], ret_ty: Type, sources: Iterable[str]) -> Call:
    """Return a call of a function by name, with source names."""
    return with_source(Call(GlobalVar(symbol), list(args), ret_ty=ret_ty), sources)


@dataclass(frozen=True)
class Callee:
    """A function's name, the names of its inputs, and its return type."""

    symbol: str
    inputs: tuple[str, ...]
    ret_ty: Type

    def call(self, given: Mapping[str, Expr], sources: Iterable[str]) -> Call:
        """Return a call of the function, with inputs by name."""
        return call(self.symbol, [given[name] for name in self.inputs], self.ret_ty, sources)


class Block:
    """A binding block under construction."""

    def __init__(self) -> None:
        """Begin without bindings."""
        self._bindings: list[relax.Binding] = []

    def bind(self, name: str, value: Expr) -> Var:
        """Bind a value to a new variable."""
        var = Var(name, value.ty)
        self._bindings.append(relax.VarBinding(var, value))
        return var

    def fields(self, name: str, value: Expr) -> list[Var]:
        """Bind a call's result; return its variable, or the variables of its fields if it is a tuple."""
        var = self.bind(name, value)
        if not isinstance(var.ty, relax.TupleType):
            return [var]
        return [self.bind(f"{name}_{i}", TupleGetItem(var, i)) for i in range(len(var.ty.fields))]

    def end(self, result: Var) -> relax.SeqExpr:
        """Return the bindings as a sequence expression with that result."""
        return relax.SeqExpr([relax.BindingBlock(self._bindings)], result)
