# SPDX-License-Identifier: Apache-2.0
"""Calls of functions that are imported one by one, and bindings of what they return."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tvm import relax
from tvm.ir import Call, Expr, GlobalVar, TupleGetItem, Type, Var

from relay_passes.ir.sources import with_source


def call(symbol: str, args: Sequence[Expr], ret_ty: Type, sources: Iterable[str]) -> Call:
    """Call a function by its name."""
    return with_source(Call(GlobalVar(symbol), list(args), ret_ty=ret_ty), sources)


@dataclass(frozen=True)
class Callee:
    """A function: its name, what its model calls its inputs, and what it returns."""

    symbol: str
    inputs: tuple[str, ...]
    ret_ty: Type

    def call(self, given: Mapping[str, Expr], sources: Iterable[str]) -> Call:
        """Call it with the inputs of their names."""
        return call(self.symbol, [given[name] for name in self.inputs], self.ret_ty, sources)


class Block:
    """Bindings, one after the other."""

    def __init__(self) -> None:
        """Begin without any."""
        self._bindings: list[relax.Binding] = []

    def bind(self, name: str, value: Expr) -> Var:
        """Bind a value to a variable."""
        var = Var(name, value.ty)
        self._bindings.append(relax.VarBinding(var, value))
        return var

    def fields(self, name: str, value: Expr) -> list[Var]:
        """Bind what a call returns; its fields, if that is a tuple."""
        var = self.bind(name, value)
        if not isinstance(var.ty, relax.TupleType):
            return [var]
        return [self.bind(f"{name}_{i}", TupleGetItem(var, i)) for i in range(len(var.ty.fields))]

    def end(self, result: Var) -> relax.SeqExpr:
        """The bindings, with what they give."""
        return relax.SeqExpr([relax.BindingBlock(self._bindings)], result)
