# SPDX-License-Identifier: Apache-2.0
"""Find the composites in a function: an anchor, the longest chain of epilogue steps, and why no further step follows.

A composite ends with a value that more than one call, or the caller of the function, uses. A step along an axis must be
along the last axis. A composite also ends before a step that needs more registers than the kernel's tile leaves free,
and before a `weighed` step that is cheaper in a separate kernel.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType

from tvm import relax
from tvm.ir import Call, Expr, Var
from tvm.relax.analysis import free_vars

from relay_passes.fusion.composites import CompositeSpec
from relay_passes.fusion.epilogue_steps import (
    at,
    label,
    misfit_of,
    no_anchor,
    no_step,
    operator_of,
    reachable,
    tensors_of,
)
from relay_passes.ir.sources import Names, bindings_of, sources_of, union
from schedules.diagnostic import Diagnostic


@dataclass(frozen=True)
class FusionGroup:
    """The calls of one composite, and why it ends there.

    Attributes:
        spec: The composite's spec.
        bindings: Calls of the group, the anchor first.
        end: Why no further call belongs to the composite.
    """

    spec: CompositeSpec
    bindings: tuple[relax.VarBinding, ...]
    end: Diagnostic

    @property
    def nodes(self) -> Names:
        """Source nodes of the composite's calls."""
        return union(sources_of(binding.value) for binding in self.bindings)


@dataclass(frozen=True)
class Grouping:
    """The composites of one function, and the reasons of anchors that formed no composite, by spec."""

    groups: tuple[FusionGroup, ...]
    left: tuple[tuple[CompositeSpec, Diagnostic], ...]


Weigh = Callable[[FusionGroup], Diagnostic | None]
"""Function that returns why the last call of a composite is better left to a separate kernel, or None."""


def group(
    func: relax.Function,
    vocabulary: Sequence[CompositeSpec],
    routines: Mapping[str, str] = MappingProxyType({}),
    weigh: Weigh | None = None,
) -> Grouping:
    """Return the composites of `func` in program order; of specs with the same anchor, the first possible is used.

    Args:
        func: Function in A-normal form.
        vocabulary: Specs of the composites.
        routines: Attribute "numerics", such as "qdq.requantize", of each function that is called by call_tir.
        weigh: Estimates for `weighed` steps; if None, no such step is fused.
    """
    finder = _Finder(func, vocabulary, routines, weigh)
    groups: list[FusionGroup] = []
    left: list[tuple[CompositeSpec, Diagnostic]] = []
    for binding in bindings_of(func):
        answers = finder.around(binding)
        found = next((answer for _, answer in answers if isinstance(answer, FusionGroup)), None)
        if found is None:
            left += ((spec, answer) for spec, answer in answers if isinstance(answer, Diagnostic))
            continue
        finder.taken.update(b.var for b in found.bindings)
        groups.append(found)
    return Grouping(tuple(groups), tuple(left))


class _Finder:
    """The search for composites in one function; `taken` has the variables that already belong to a composite."""

    def __init__(
        self,
        func: relax.Function,
        vocabulary: Sequence[CompositeSpec],
        routines: Mapping[str, str],
        weigh: Weigh | None,
    ) -> None:
        self._vocabulary, self._routines, self._weigh = vocabulary, routines, weigh
        self._bindings = {binding.var: binding for binding in bindings_of(func)}
        self._consumers: dict[Var, list[relax.Binding]] = {}
        for binding in bindings_of(func):
            for operand in free_vars(binding.value):
                self._consumers.setdefault(operand, []).append(binding)
        self.taken: set[Var] = set()

    def around(self, binding: relax.VarBinding) -> list[tuple[CompositeSpec, FusionGroup | Diagnostic]]:
        """Return, for each spec with this anchor, the composite with anchor `binding`, or why there is none."""
        operator = operator_of(binding.value, self._routines)
        if binding.var in self.taken:
            return []
        return [(spec, self._grouped(spec, binding)) for spec in self._vocabulary if spec.anchor == operator]

    def _grouped(self, spec: CompositeSpec, anchor: relax.VarBinding) -> FusionGroup | Diagnostic:
        misfit = no_anchor(spec, anchor.value)
        if misfit is not None:
            return at(misfit, anchor)
        chain, remaining, spare = [anchor], list(spec.epilogue), spec.spare_registers
        while (end := self._end(chain[-1].var)) is None:
            follower = self._consumers[chain[-1].var][0]
            next_ones = list(reachable(remaining))
            op = operator_of(follower.value, self._routines)
            misfits = [misfit_of(step, op, follower, chain[-1].var) for step in next_ones]
            if None not in misfits:
                end = no_step(spec, op, follower, next_ones, misfits)
                break
            step = next_ones[misfits.index(None)]
            spare -= step.registers
            if spare < 0:
                reason = (
                    f"{label(follower)}: {op} would spill: vector registers that it needs beside the tile's"
                )
                others = sources_of(follower.value)
                limit = f"at most {spare + step.registers}"
                end = Diagnostic.of(reason, limit, step.registers, others=others)
                break
            if step.weighed and (dearer := self._dearer(spec, [*chain, follower])) is not None:
                others = sources_of(follower.value)
                end = Diagnostic.of(
                    f"{label(follower)}: {dearer.reason}", dearer.limit, dearer.actual, others=others
                )
                break
            # Steps keep their order and occur once.
            remaining = remaining[misfits.index(None) + 1 :]
            chain.append(follower)
        missing = next((step.op for step in remaining if step.required), None)
        if missing is not None:
            reason = f"no {spec.name}: {missing} is missing; {end.reason}"
            return at(Diagnostic(reason, end.limit, end.actual), anchor)
        return self._group(spec, chain, end)

    def _group(self, spec: CompositeSpec, chain: Sequence[relax.VarBinding], end: Diagnostic) -> FusionGroup:
        bindings = (*self._pad(spec, chain[0]), *self._before(spec, chain), *chain)
        return FusionGroup(spec, bindings, at(end, chain[-1]))

    def _dearer(self, spec: CompositeSpec, chain: Sequence[relax.VarBinding]) -> Diagnostic | None:
        """Return why the last call of a chain is cheaper in a separate kernel, or None."""
        if self._weigh is None:
            return Diagnostic.of("no estimate says whether it is cheaper inside")
        return self._weigh(self._group(spec, chain, Diagnostic.of("it is weighed")))

    def _pad(self, spec: CompositeSpec, anchor: relax.VarBinding) -> tuple[relax.VarBinding, ...]:
        """Return the binding of operand 0's constant padding, if it can be part of the composite; else no binding."""
        pad = self._bindings.get(tensors_of(anchor.value)[0])
        if not spec.pad or pad is None or operator_of(pad.value) != "relax.nn.pad":
            return ()
        if str(pad.value.attrs.pad_mode) != "constant" or self._end(pad.var) is not None:
            return ()
        return (pad,)

    def _before(self, spec: CompositeSpec, chain: Sequence[relax.VarBinding]) -> Iterable[relax.VarBinding]:
        """Return the bindings of operands' permutations and casts that can be part of the composite."""
        found = []
        for index, tensor in enumerate(tensors_of(chain[0].value)):
            found += self._moves(spec, tensor, dict(spec.permuted).get(index, 0))
        for value, follower in pairwise(chain):
            others = (tensor for tensor in tensors_of(follower.value) if not tensor.same_as(value.var))
            found += (binding for tensor in others for binding in self._moves(spec, tensor, 0))
        # One tensor may be both operands.
        return {binding.var: binding for binding in found}.values()

    def _moves(self, spec: CompositeSpec, value: Expr, among: int) -> list[relax.VarBinding]:
        """Return the bindings of one operand's permutation or cast that can be part of the composite; else none."""
        found: list[relax.VarBinding] = []
        while (binding := self._bindings.get(value)) is not None and self._end(binding.var) is None:
            operator = operator_of(binding.value)
            if operator == "relax.permute_dims" and _contiguous(binding.value) <= among:
                among = 0
            elif operator != "relax.astype" or str(binding.value.args[0].ty.dtype) != spec.widened:
                break
            found.append(binding)
            value = binding.value.args[0]
        return found[::-1]

    def _end(self, value: Var) -> Diagnostic | None:
        """Return why no call may follow `value` in a composite; None if one may."""
        users = self._consumers.get(value, [])
        if not isinstance(value, relax.DataflowVar):
            return Diagnostic.of("its value is an output")
        if len(users) != 1:
            return Diagnostic.of("its value has several readers", 1, ", ".join(map(label, users)))
        if users[0].var in self.taken:
            return Diagnostic.of(f"{label(users[0])} belongs to another composite")
        return None


def _contiguous(permutation: Call) -> int:
    """Return the position from the end, counted from 1, of the axis that was last before the permutation."""
    rank, axes = len(permutation.ty.shape), permutation.attrs.axes
    return rank - (0 if axes is None else [int(axis) % rank for axis in axes].index(rank - 1))
