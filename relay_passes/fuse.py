# SPDX-License-Identifier: Apache-2.0
"""Form composites: an anchor and the longest chain of epilogue steps that a kernel can take in.

    y = matmul(x, W); z = add(y, b); r = relu(z)    →    r = arm_linear_fc(x)
    with the private function arm_linear_fc, attributes Composite="arm.linear" and Primitive, which holds the three
    calls and the constants W and b

Which composites there are is data that the caller brings. A value that more than one call needs, or the caller of
the function, is computed for itself: it ends its composite.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from tvm import IRModule, relax
from tvm.ir import Call, Constant, Expr, Op, Var
from tvm.relax.analysis import free_vars, remove_all_unused
from tvm.tirx import IntImm
from tvm_ffi import structural_map

from relay_passes.sources import bindings_of, identifier, relax_functions, sources_of, union, with_source


class EpilogueStep(Protocol):
    """One elementwise call that may follow an anchor."""

    @property
    def op(self) -> str:
        """The Relax operator."""

    @property
    def operand(self) -> str | None:
        """Kind of the other tensor: "constant", "tensor", or None if there is none."""

    @property
    def broadcast(self) -> str | None:
        """Shape of the other tensor: "last-axis" (as many elements as that axis), "same-shape", or None."""


class CompositeSpec(Protocol):
    """One composite."""

    @property
    def name(self) -> str:
        """Value of the attribute "Composite"."""

    @property
    def anchor(self) -> str:
        """The Relax operator of the first call."""

    @property
    def constant_operands(self) -> tuple[int, ...]:
        """Operands of the anchor that must be constants."""

    @property
    def dtypes(self) -> tuple[str, ...]:
        """Allowed dtypes of the anchor's operand 0."""

    @property
    def epilogue(self) -> Sequence[EpilogueStep]:
        """The steps in the order that they may follow; each is optional and occurs at most once."""


@dataclass(frozen=True)
class _Group:
    spec: CompositeSpec
    bindings: tuple[relax.VarBinding, ...]


def fuse(mod: IRModule, vocabulary: Sequence[CompositeSpec]) -> IRModule:
    """Move each composite of `mod` into a private function of its own and call that.

    Args:
        mod: Canonical; every call named.
        vocabulary: The composites, the preferred first where two have the same anchor.

    Returns:
        The module. A call of a composite carries the source names of all the calls inside.
    """
    builder = relax.BlockBuilder(mod)
    for gv, func in relax_functions(mod):
        if func.attrs and "Primitive" in func.attrs:
            continue
        calls: dict[Var, Call] = {}
        for group in _groups(func, vocabulary):
            calls[group.bindings[-1].var] = _outlined(builder, group)
        if calls:
            builder.update_func(gv, _with_calls(func, calls))
    return builder.get()


def _groups(func: relax.Function, vocabulary: Sequence[CompositeSpec]) -> list[_Group]:
    bindings = bindings_of(func)
    consumers: dict[Var, list[relax.Binding]] = {}
    for binding in bindings:
        for operand in free_vars(binding.value):
            consumers.setdefault(operand, []).append(binding)
    groups: list[_Group] = []
    taken: set[Var] = set()
    for binding in bindings:
        spec = next((s for s in vocabulary if _is_anchor(s, binding)), None)
        if spec is None or binding.var in taken:
            continue
        chain = [binding]
        steps = iter(spec.epilogue)
        while isinstance(chain[-1].var, relax.DataflowVar) and len(consumers.get(chain[-1].var, ())) == 1:
            follower = consumers[chain[-1].var][0]
            # The iterator goes on behind the step found: steps keep their order and occur once.
            if follower.var in taken or not any(_fits(step, follower, chain) for step in steps):
                break
            chain.append(follower)
        taken.update(b.var for b in chain)
        groups.append(_Group(spec, tuple(chain)))
    return groups


def _is_anchor(spec: CompositeSpec, binding: relax.Binding) -> bool:
    call = binding.value
    return (
        _operator(call) == spec.anchor
        and str(call.args[0].ty.dtype) in spec.dtypes
        and all(isinstance(call.args[index], Constant) for index in spec.constant_operands)
    )


def _fits(step: EpilogueStep, binding: relax.Binding, chain: Sequence[relax.Binding]) -> bool:
    """Whether `binding` is this step on the value at the end of `chain`, and keeps its shape and dtype."""
    call, value = binding.value, chain[-1].var
    shape = _shape(value)
    if _operator(call) != step.op or shape is None or binding.var.ty != value.ty:
        return False
    others = [arg for arg in call.args if isinstance(arg.ty, relax.TensorType) and not arg.same_as(value)]
    if len(others) != (step.operand is not None):
        return False
    if not others:
        return True
    other = _shape(others[0])
    if other is None or isinstance(others[0], Constant) != (step.operand == "constant"):
        return False
    if step.broadcast == "same-shape":
        return other == shape
    return bool(other) and other[-1] == math.prod(other) == shape[-1]


def _outlined(builder: relax.BlockBuilder, group: _Group) -> Call:
    """Add the group's function to the module; returns the call that takes the group's place."""
    inside = [binding.var for binding in group.bindings]
    operands = [
        v for v in dict.fromkeys(v for b in group.bindings for v in free_vars(b.value)) if v not in inside
    ]
    root = inside[-1]
    copies = {var: Var(var.name, var.ty) for var in (*operands, root)}
    copies |= {var: relax.DataflowVar(var.name, var.ty) for var in inside[:-1]}
    block = relax.DataflowBlock(list(group.bindings))
    block = structural_map(block, [(Var, lambda var: copies.get(var, var))])
    body = relax.SeqExpr([block], copies[root])
    func = relax.Function([copies[var] for var in operands], body, root.ty)
    func = builder.normalize(func).with_attrs({"Composite": group.spec.name, "Primitive": True})
    names = union(sources_of(binding.value) for binding in group.bindings)
    symbol = builder.add_func(func, identifier(f"{group.spec.name}/{names[0] if names else root.name}"))
    return with_source(Call(symbol, operands, ret_ty=root.ty), names)


def _with_calls(func: relax.Function, calls: dict[Var, Call]) -> relax.Function:
    def put(binding: relax.VarBinding) -> relax.VarBinding:
        return relax.VarBinding(binding.var, calls.get(binding.var, binding.value), binding.span)

    return remove_all_unused(structural_map(func, [(relax.VarBinding, put)]))


def _operator(expr: Expr) -> str | None:
    return str(expr.op.name) if isinstance(expr, Call) and isinstance(expr.op, Op) else None


def _shape(expr: Expr) -> tuple[int, ...] | None:
    dims = expr.ty.shape
    if dims is None or not all(isinstance(dim, IntImm) for dim in dims):
        return None
    return tuple(int(dim) for dim in dims)
