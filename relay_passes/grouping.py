# SPDX-License-Identifier: Apache-2.0
"""Find composites in a function: an anchor, the longest chain of epilogue steps, and why the chain ends there.

A value that more than one call needs, or the caller of the function, ends its composite. A step that goes along an
axis goes along the last one. A step that needs more registers than the kernel's tile leaves ends it, too.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from tvm import relax
from tvm.ir import Call, Constant, Expr, Op, Var
from tvm.relax.analysis import free_vars

from relay_passes.composites import CompositeSpec, EpilogueStep
from relay_passes.rule import Rejection
from relay_passes.shapes import static_shape
from relay_passes.sources import Names, bindings_of, sources_of, union

# Operators that take the value as either operand.
_COMMUTATIVE = ("relax.add", "relax.multiply")


@dataclass(frozen=True)
class Group:
    """One composite.

    Attributes:
        spec: Which.
        bindings: Its calls, the anchor first.
        end: Why it takes in no more.
    """

    spec: CompositeSpec
    bindings: tuple[relax.VarBinding, ...]
    end: Rejection

    @property
    def nodes(self) -> Names:
        """Source nodes of its calls."""
        return union(sources_of(binding.value) for binding in self.bindings)


@dataclass(frozen=True)
class Grouping:
    """The composites of one function, and the anchors that no composite could be formed around, with which."""

    groups: tuple[Group, ...]
    left: tuple[tuple[CompositeSpec, Rejection], ...]


@dataclass(frozen=True)
class _Misfit:
    reason: str
    limit: object = None
    actual: object = None

    def at(self, binding: relax.Binding) -> Rejection:
        return Rejection(self.reason, sources_of(binding.value), self.limit, self.actual)


def group(
    func: relax.Function,
    vocabulary: Sequence[CompositeSpec],
    routines: Mapping[str, str] = MappingProxyType({}),
) -> Grouping:
    """The composites of `func`, in program order; of specs with one anchor, the first that can be formed.

    Args:
        func: In A-normal form.
        vocabulary: The composites.
        routines: For each function that is called by call_tir what it computes, such as "qdq.requantize".
    """
    finder = _Finder(func, vocabulary, routines)
    groups: list[Group] = []
    left: list[tuple[CompositeSpec, Rejection]] = []
    for binding in bindings_of(func):
        answers = finder.around(binding)
        found = next((answer for _, answer in answers if isinstance(answer, Group)), None)
        if found is None:
            left += ((spec, answer) for spec, answer in answers if isinstance(answer, Rejection))
            continue
        finder.taken.update(b.var for b in found.bindings)
        groups.append(found)
    return Grouping(tuple(groups), tuple(left))


def operator_of(expr: Expr, routines: Mapping[str, str] = MappingProxyType({})) -> str | None:
    """Name of the operator, or of the routine, that `expr` calls; None if it is no such call."""
    if not isinstance(expr, Call) or not isinstance(expr.op, Op):
        return None
    if expr.op.name == "relax.call_tir":
        return routines.get(expr.args[0].name_hint, "relax.call_tir")
    return str(expr.op.name)


def tensors_of(call: Call) -> list[Expr]:
    """The tensors that a call reads; those of a call_tir stand in its tuple."""
    flat = [e for arg in call.args for e in (arg.fields if isinstance(arg, relax.Tuple) else [arg])]
    return [arg for arg in flat if isinstance(arg.ty, relax.TensorType)]


class _Finder:
    """Composites of one function; `taken` are the variables that belong to one already."""

    def __init__(
        self, func: relax.Function, vocabulary: Sequence[CompositeSpec], routines: Mapping[str, str]
    ) -> None:
        self._vocabulary, self._routines = vocabulary, routines
        self._bindings = {binding.var: binding for binding in bindings_of(func)}
        self._consumers: dict[Var, list[relax.Binding]] = {}
        for binding in bindings_of(func):
            for operand in free_vars(binding.value):
                self._consumers.setdefault(operand, []).append(binding)
        self.taken: set[Var] = set()

    def around(self, binding: relax.VarBinding) -> list[tuple[CompositeSpec, Group | Rejection]]:
        """A composite, or why there is none, for each spec whose anchor `binding` is."""
        operator = operator_of(binding.value, self._routines)
        if binding.var in self.taken:
            return []
        return [(spec, self._grouped(spec, binding)) for spec in self._vocabulary if spec.anchor == operator]

    def _grouped(self, spec: CompositeSpec, anchor: relax.VarBinding) -> Group | Rejection:
        misfit = _no_anchor(spec, anchor.value)
        if misfit is not None:
            return misfit.at(anchor)
        chain, remaining, spare = [anchor], list(spec.epilogue), spec.spare_registers
        while (end := self._end(chain[-1].var)) is None:
            follower = self._consumers[chain[-1].var][0]
            reachable = list(_reachable(remaining))
            op = operator_of(follower.value, self._routines)
            misfits = [_misfit(step, op, follower, chain[-1].var) for step in reachable]
            if None not in misfits:
                end = _no_step(spec, op, follower, reachable, misfits)
                break
            step = reachable[misfits.index(None)]
            spare -= step.registers
            if spare < 0:
                reason = (
                    f"{_name(follower)}: {op} would spill: vector registers that it needs beside the tile's"
                )
                end = _Misfit(reason, spare + step.registers, step.registers)
                break
            # Steps keep their order and occur once.
            remaining = remaining[misfits.index(None) + 1 :]
            chain.append(follower)
        missing = next((step.op for step in remaining if step.required), None)
        if missing is not None:
            reason = f"no {spec.name}: {missing} is missing; {end.reason}"
            return _Misfit(reason, end.limit, end.actual).at(anchor)
        end_at = end.at(chain[-1])
        return Group(spec, (*self._pad(spec, anchor), *self._permutations(spec, anchor), *chain), end_at)

    def _pad(self, spec: CompositeSpec, anchor: relax.VarBinding) -> tuple[relax.VarBinding, ...]:
        """The constant pad of operand 0 that nothing else needs, if the composite takes one."""
        pad = self._bindings.get(anchor.value.args[0])
        if not spec.pad or pad is None or operator_of(pad.value) != "relax.nn.pad":
            return ()
        if str(pad.value.attrs.pad_mode) != "constant" or self._end(pad.var) is not None:
            return ()
        return (pad,)

    def _permutations(self, spec: CompositeSpec, anchor: relax.VarBinding) -> tuple[relax.VarBinding, ...]:
        """The permutations of operands that nothing else needs and that the composite takes."""
        tensors = tensors_of(anchor.value)
        found = []
        for operand, among in spec.permuted:
            binding = self._bindings.get(tensors[operand])
            if binding is None or operator_of(binding.value) != "relax.permute_dims":
                continue
            rank = len(binding.value.ty.shape)
            axes = binding.value.attrs.axes
            contiguous = 0 if axes is None else [int(axis) % rank for axis in axes].index(rank - 1)
            if contiguous >= rank - among and self._end(binding.var) is None:
                found.append(binding)
        # One tensor may be both operands.
        return tuple({binding.var: binding for binding in found}.values())

    def _end(self, value: Var) -> _Misfit | None:
        """Why nothing may follow `value` at all, or None."""
        users = self._consumers.get(value, [])
        if not isinstance(value, relax.DataflowVar):
            return _Misfit("its value is an output")
        if len(users) != 1:
            return _Misfit("its value is needed more than once", 1, ", ".join(map(_name, users)))
        if users[0].var in self.taken:
            return _Misfit(f"{_name(users[0])} belongs to another composite")
        return None


def _no_anchor(spec: CompositeSpec, call: Call) -> _Misfit | None:
    tensors = tensors_of(call)
    dtype = str(tensors[0].ty.dtype)
    if dtype not in spec.dtypes:
        return _Misfit(f"no {spec.name}: dtype is not allowed", ", ".join(spec.dtypes), dtype)
    if spec.anchor_dtype and str(call.ty.dtype) != spec.anchor_dtype:
        return _Misfit(f"no {spec.name}: its value has another dtype", spec.anchor_dtype, str(call.ty.dtype))
    for index in spec.constant_operands:
        if not isinstance(tensors[index], Constant):
            return _Misfit(f"no {spec.name}: operand {index} is not a constant")
        if spec.constant_dtype not in ("", actual := str(tensors[index].ty.dtype)):
            return _Misfit(f"no {spec.name}: operand {index} has another dtype", spec.constant_dtype, actual)
    return None


def _reachable(steps: Sequence[EpilogueStep]) -> Iterator[EpilogueStep]:
    """The steps that may be next: none is behind a required one."""
    for step in steps:
        yield step
        if step.required:
            return


def _no_step(
    spec: CompositeSpec,
    op: str | None,
    follower: relax.Binding,
    steps: Sequence[EpilogueStep],
    misfits: Sequence[_Misfit | None],
) -> _Misfit:
    """Why `follower` is none of `steps`."""
    for step, misfit in zip(steps, misfits, strict=True):
        if _is_of(step, op) and misfit is not None:
            return _Misfit(f"{_name(follower)}: {misfit.reason}", misfit.limit, misfit.actual)
    known = any(_is_of(step, op) for step in spec.epilogue)
    what = "may not follow here, or not again" if known else f"is no step of {spec.name}"
    return _Misfit(f"{_name(follower)}: {op} {what}")


def _is_of(step: EpilogueStep, op: str | None) -> bool:
    return op == step.op or op in step.also


def _misfit(step: EpilogueStep, op: str | None, follower: relax.Binding, value: Var) -> _Misfit | None:
    """Why `follower`, a call of `op`, is not this step on `value`, or None."""
    call, shape = follower.value, static_shape(value)
    if not _is_of(step, op):
        return _Misfit("is another operator", step.op, op)
    if shape is None:
        return _Misfit("shape is not static")
    tensors = tensors_of(call)
    if step.op not in _COMMUTATIVE and not tensors[0].same_as(value):
        return _Misfit("the value is not its first operand")
    axis = getattr(call.attrs, "axis", None)
    if axis is not None and int(axis) % len(shape) != len(shape) - 1:
        return _Misfit("goes along another axis than the last", len(shape) - 1, int(axis))
    kept = static_shape(follower.var) == shape if step.retypes else follower.var.ty == value.ty
    if step.broadcast != "contracted" and not kept:
        return _Misfit("changes shape or dtype", str(value.ty), str(follower.var.ty))
    others = [arg for arg in tensors if not arg.same_as(value)]
    if len(others) != (step.operand is not None):
        return _Misfit("number of other tensors", int(step.operand is not None), len(others))
    return _operand_misfit(step, others[0], shape) if others else None


def _operand_misfit(step: EpilogueStep, operand: Expr, value: tuple[int, ...]) -> _Misfit | None:
    kind = "constant" if isinstance(operand, Constant) else "tensor"
    if step.operand not in (kind, "any"):
        return _Misfit("other operand is of another kind", step.operand, kind)
    shape = static_shape(operand)
    if shape is None:
        return _Misfit("shape is not static")
    last_axis = bool(shape) and shape[-1] == math.prod(shape) == value[-1]
    fits = {
        "same-shape": shape == value,
        "last-axis": last_axis,
        "scalar": math.prod(shape) == 1,
        "per-channel": last_axis or math.prod(shape) == 1,
        "any": True,
        # One right side for each left side: a vector, or what is broadcast, would change the shape in other ways.
        "contracted": shape[:-2] == value[:-2] and len(shape) == len(value),
    }
    return None if fits[str(step.broadcast)] else _Misfit("other operand's shape", step.broadcast, shape)


def _name(binding: relax.Binding) -> str:
    return ", ".join(sources_of(binding.value)) or str(binding.var.name)
