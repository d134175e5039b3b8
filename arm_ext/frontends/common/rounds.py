# SPDX-License-Identifier: Apache-2.0
"""A loop as a Relax function that ends by calling itself.

    loop(go, number, states, fixed, whole): if go: loop(*body(number, states, fixed), fixed, whole)  else: states, whole

Rows that are given by each round are written where they belong in `whole`, of which there is one for all rounds.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from tvm import relax
from tvm.ir import Type, Var
from tvm_ffi import structural_equal

from arm_ext.common.errors import ModelError
from arm_ext.frontends.common.block import Block, Callee, call

SCALAR = {name: relax.TensorType((), name) for name in ("bool", "int64")}


@dataclass(frozen=True)
class Rounds:
    """The parts of a loop's function.

    Attributes:
        symbol: Name of the function.
        source: The node that it comes from.
        body: Computes a round.
        number: Name in the body of the round number, an int64 scalar.
        states: Name → type, in order.
        fixed: Further values that the body reads: name → type.
        wholes: Types of what rows are written to.
        writers: Kernels that write a row, by name; of each whole, in order.
    """

    symbol: str
    source: str
    body: Callee
    number: str
    states: Mapping[str, Type]
    fixed: Mapping[str, Type]
    wholes: tuple[Type, ...]
    writers: tuple[str, ...]

    def check(self) -> None:
        """Raise an error for states whose shape or dtype changes between iterations.

        Raises:
            ModelError: A round returns a state, or its condition, of another type than it takes.
        """
        more, _, *after = self.body.ret_ty.fields
        given = {"its condition": (SCALAR["bool"], more)}
        given |= {f"'{name}'": (ty, new) for (name, ty), new in zip(self.states.items(), after, strict=False)}
        for what, (before, new) in given.items():
            if not structural_equal(before, new):
                raise ModelError(
                    f"Loop node '{self.source}' cannot be compiled: {what} is {before} before a round and {new} after "
                    "it; a compiled model has static shapes"
                )

    def function(self) -> relax.Function:
        """Return the loop as a Relax function."""
        go, number = Var("go", SCALAR["bool"]), Var(self.number, SCALAR["int64"])
        states = {name: Var(name, ty) for name, ty in self.states.items()}
        fixed = {name: Var(name, ty) for name, ty in self.fixed.items()}
        wholes = [Var("whole", ty) for ty in self.wholes]
        again, block = Block(), Block()
        given = {self.number: number, **states, **fixed}
        results = again.fields("results", self.body.call(given, [self.source]))
        elements = results[len(results) - len(wholes) :]
        for writer, whole, row in zip(self.writers, wholes, elements, strict=True):
            again.bind("written", call(writer, [whole, row, number], relax.TupleType([]), [self.source]))
        nexts = results[: len(results) - len(wholes)]
        ends = [*states.values(), *wholes]
        done = block.bind("done", relax.Tuple(ends))
        repeat = call(self.symbol, [*nexts, *fixed.values(), *wholes], done.ty, [self.source])
        choice = relax.If(go, again.end(again.bind("repeated", repeat)), block.end(done))
        relax.expr._update_type(choice, done.ty)
        outer = Block()
        result = outer.bind("results", choice)
        params = [go, number, *states.values(), *fixed.values(), *wholes]
        return relax.Function(params, outer.end(result), result.ty, is_pure=False)
