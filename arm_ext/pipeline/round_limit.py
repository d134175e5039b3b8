# SPDX-License-Identifier: Apache-2.0
"""A limit of iterations for models that run on this machine, which refuses a loop that data makes endless.

    def loop(go, x): return loop(*step(x)) if go else x
    →
    def loop(go, x): return (count_round("node"); loop(*step(x))) if go else x

Front ends refuse loops that are known to have too many rounds. What is left to the data is counted here, in the program
of the self-test and in others that the compiler runs itself; a package's own program does not count.
"""

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import tvm
import tvm_ffi
from tvm import relax
from tvm.ir import Call, Expr, GlobalVar, StringImm, Var
from tvm_ffi import structural_walk

from arm_ext.common.errors import ModelError
from arm_ext.frontends.common import limits
from arm_ext.frontends.common.loops import is_loop
from relay_passes.ir.sources import relax_functions, sources_of

_COUNT = "arm_ext.count_round"
_running = threading.local()


def count_rounds(planned: tvm.IRModule) -> tvm.IRModule:
    """Insert counters of the iterations of each loop, named after its source node.

    The module then runs in this process only, within `limited_rounds`.

    Args:
        planned: The module after the last phase.
    """
    found = [(gvar, func) for gvar, func in relax_functions(planned) if is_loop(gvar, func)]
    if not found:
        return planned
    names = _source_names(planned)
    out = planned.clone()
    for gvar, func in found:
        out.update_func(gvar, _counted(func, names.get(gvar.name_hint, gvar.name_hint)))
    return out


def _source_names(mod: tvm.IRModule) -> dict[str, str]:
    """Return, for each function that is called: symbol → source node of its calls."""
    calls: list[Call] = []
    for _, func in relax_functions(mod):
        structural_walk(func, [(Call, calls.append)])
    called = [(call.op.name_hint, sources_of(call)) for call in calls if isinstance(call.op, GlobalVar)]
    return {symbol: ", ".join(sources) for symbol, sources in called if sources}


def _counted(func: relax.Function, node: str) -> relax.Function:
    first, *others = func.body.blocks
    choice, *following = first.bindings
    count = Call(relax.ExternFunc(_COUNT), [StringImm(node)], ret_ty=relax.TupleType([]))
    counting = relax.BindingBlock([relax.VarBinding(Var("counted", count.ty), count)])
    branch = relax.SeqExpr([counting, *choice.value.true_branch.blocks], choice.value.true_branch.body)
    counted = relax.If(choice.value.cond, branch, choice.value.false_branch)
    relax.expr._update_type(counted, choice.value.ty)
    blocks = [relax.BindingBlock([relax.VarBinding(choice.var, counted), *following]), *others]
    body: Expr = relax.SeqExpr(blocks, func.body.body)
    return relax.Function(func.params, body, func.ret_ty, is_pure=False, attrs=func.attrs)


@contextmanager
def limited_rounds() -> Iterator[None]:
    """Open a scope for programs of `count_rounds`, in which all loops together may run MOST_ROUNDS iterations.

    Raises:
        ModelError: The loops have more rounds; the message names them with their rounds.
    """
    rounds = _running.rounds = _Rounds()
    try:
        yield
    except Exception as err:
        if rounds.refusal is None:
            raise
        raise rounds.refusal from err
    finally:
        del _running.rounds


class _Rounds:
    """The number of iterations in one run."""

    def __init__(self) -> None:
        self.refusal: ModelError | None = None
        self._left = limits.MOST_ROUNDS
        self._of_node: Counter[str] = Counter()

    def count(self, node: str) -> None:
        if self._left == 0:
            self.refusal = ModelError(self._message())
            raise self.refusal
        self._left -= 1
        self._of_node[node] += 1

    def _message(self) -> str:
        counted = ", ".join(f"{count} of loop node '{node}'" for node, count in self._of_node.items())
        return (
            f"the run on this machine was ended after {limits.MOST_ROUNDS} rounds, the most that it may take: "
            f"{counted}; give the loop a largest number of rounds, or run the model with inputs for which it ends: "
            "those of a self-test are the argument `inputs` of arm_ext.compile"
        )


def _count_round(node: str) -> None:
    _running.rounds.count(node)


tvm_ffi.register_global_func(_COUNT, _count_round)
