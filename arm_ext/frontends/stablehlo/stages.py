# SPDX-License-Identifier: Apache-2.0
"""Functions with control flow as calls of their straight-line parts, of branches and of loops.

main(x): y = f(x); z = loop(y); w = g(z, x)    →    main(x): y = main_part(x); z = loop(y); w = main_part_2(z, x)
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import tvm
from tvm import relax, tirx
from tvm.ir import Call, Expr, GlobalVar, TupleGetItem, Var
from tvm.relax.analysis import free_vars
from tvm_ffi import structural_map

from arm_ext.frontends.common.block import Block, Callee, call
from arm_ext.frontends.common.functions import Functions
from relay_passes.ir.sources import bindings_of, sources_of, union
from relay_passes.programs.merge_modules import MAIN
from relay_passes.programs.outline import Part, function_of

_Kernels = Mapping[GlobalVar, tirx.PrimFunc]


class Stages(Functions):
    """The functions of a program under import."""

    def add(self, symbol: str, mod: tvm.IRModule) -> Callee:
        """Add a function of one dataflow block, in which calls of functions by name are the control flow.

        Args:
            symbol: Name of the function.
            mod: The module with the function and the kernels that it calls.
        """
        func = mod[symbol]
        kernels = {gvar: f for gvar, f in mod.functions_items() if isinstance(f, tirx.PrimFunc)}
        *bindings, last = bindings_of(func)
        if any(_decides(binding.value) for binding in bindings):
            self.put(symbol, self._staged(symbol, func, kernels, _needed(bindings, last.value)))
        else:
            self.straight[symbol] = _module(func, kernels)
        return Callee(symbol, tuple(str(param.name) for param in func.params), func.ret_ty)

    def _staged(
        self, symbol: str, func: relax.Function, kernels: _Kernels, bindings: Sequence[relax.Binding]
    ) -> relax.Function:
        block, result = Block(), bindings_of(func)[-1].value
        values: dict[Var, Expr] = {param: param for param in func.params}
        for stage in _stages(bindings):
            if part := _part(self.symbol(symbol, "part"), stage, bindings, result):
                straight = function_of(func, part)
                self.straight[part.name] = _module(straight, kernels)
                names = union(sources_of(binding.value) for binding in stage.straight)
                given = [values[var] for var in part.inputs]
                results = block.fields(part.name, call(part.name, given, straight.ret_ty, names))
                values.update(zip(part.outputs, results, strict=True))
            for binding in stage.decisions:
                values[binding.var] = block.bind(str(binding.var.name), _with(binding.value, values))
        returned = block.bind("outputs", _with(result, values))
        staged = relax.Function(func.params, block.end(returned), func.ret_ty, is_pure=False)
        staged = staged.with_attr("num_input", len(func.params))
        return staged.with_attr("global_symbol", MAIN) if symbol == MAIN else staged


@dataclass(frozen=True)
class _Stage:
    """Bindings that depend on the decisions of earlier stages alone, and decisions that depend on these."""

    straight: list[relax.Binding]
    decisions: list[relax.Binding]


def _module(func: relax.Function, kernels: _Kernels) -> tvm.IRModule:
    """Return a module in which a function is `main`, with the kernels that it calls."""
    mod = tvm.IRModule(dict(kernels))
    mod[MAIN] = func.with_attr("global_symbol", MAIN)
    return relax.transform.DeadCodeElimination([MAIN])(mod) if kernels else mod


def _decides(value: Expr) -> bool:
    return isinstance(value, Call) and isinstance(value.op, GlobalVar)


def _needed(bindings: Sequence[relax.Binding], result: Expr) -> list[relax.Binding]:
    """Return the bindings that the result depends on, in their order."""
    needed, found = set(free_vars(result)), []
    for binding in reversed(bindings):
        if binding.var in needed:
            found.append(binding)
            needed.update(free_vars(binding.value))
    return found[::-1]


def _stages(bindings: Sequence[relax.Binding]) -> Iterator[_Stage]:
    number: dict[Var, int] = {}
    stages = [_Stage([], [])]
    decided: set[Var] = set()
    for binding in bindings:
        reads = free_vars(binding.value)
        at = max((number.get(var, 0) for var in reads), default=0)
        if _decides(binding.value):
            stages[at].decisions.append(binding)
            decided.add(binding.var)
            at += 1
            if at == len(stages):
                stages.append(_Stage([], []))
        elif isinstance(binding.value, TupleGetItem) and binding.value.tuple_value in decided:
            stages[at - 1].decisions.append(binding)
        else:
            stages[at].straight.append(binding)
        number[binding.var] = at
    yield from stages


def _part(name: str, stage: _Stage, bindings: Sequence[relax.Binding], result: Expr) -> Part | None:
    """Return a stage as a function whose outputs are the values read outside of the stage; None if there are none."""
    inner = frozenset(binding.var for binding in stage.straight)
    outside = [binding.value for binding in bindings if binding.var not in inner]
    outputs = [
        var
        for var in dict.fromkeys(v for value in (*outside, result) for v in free_vars(value))
        if var in inner
    ]
    inputs = dict.fromkeys(
        v for binding in stage.straight for v in free_vars(binding.value) if v not in inner
    )
    return Part(name, inner, tuple(inputs), tuple(outputs)) if outputs else None


def _with(value: Expr, values: dict[Var, Expr]) -> Expr:
    """Return an expression with variables replaced."""
    return structural_map(value, [(Var, lambda var: values.get(var, var))])
