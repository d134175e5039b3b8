# SPDX-License-Identifier: Apache-2.0
"""Functions that end by calling themselves, turned into while loops, so that the stack does not grow.

    def loop(go, x): return loop(*step(x)) if go else x    →    while go: go, x = step(x)

Relax has no loops, but recursion. In two steps: before code generation the call becomes a mark, with what follows the
last round after it; and of the function's code the branch with the mark becomes the body of a while. Between the two
the module is for code generation only.
"""

import math
from collections.abc import Sequence

import tvm
from tvm import relax, tirx
from tvm.ir import Call, Expr, StringImm, Var
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has)
from tvm_ffi import structural_map

from relay_passes.ir.sources import relax_functions
from schedules.tir.emit import i64, in_root_block, kernel_function

_AGAIN = "arm_ext.again"
_PACKED = tvm.ir.Op.get("tirx.tvm_call_packed")
_SET = tvm.ir.Op.get("tirx.anylist_setitem_call_packed")


def row_writer(rows: int, shape: Sequence[int], dtype: str) -> tirx.PrimFunc:
    """Return a kernel that writes a row [*shape] into a tensor [rows, *shape]; the row's index is an int64 scalar."""
    size = math.prod(shape)
    arguments = [((rows, *shape), dtype), (tuple(shape), dtype), ((), "int64")]
    with kernel_function("write_row", arguments) as function:
        whole, row, number = function.buffers
        with T.serial(i64(size)) as i:
            T.buffer_store(whole, row[i], [number[0] * i64(size) + i])
    return in_root_block(function.prim_func).without_attr("global_symbol")


def mark_loops(mod: tvm.IRModule) -> tvm.IRModule:
    """Mark the tail calls of functions that call themselves.

    Args:
        mod: Planned. A function that calls itself is one `if` on its first parameter, of which the first branch ends
            with that call and the other does not call it.
    """
    out = mod.clone()
    for gvar, func in relax_functions(mod):
        if is_loop(gvar, func):
            out.update_func(gvar, _marked(func, func.body.blocks[0].bindings[0].value))
    return out


def is_loop(gvar: tvm.ir.GlobalVar, func: relax.Function) -> bool:
    """Whether a planned function begins with an `if` whose first branch ends with a call of the function itself."""
    bindings = [binding for block in func.body.blocks for binding in block.bindings]
    if not bindings or not isinstance(bindings[0].value, relax.If):
        return False
    call = bindings[0].value.true_branch.blocks[-1].bindings[-1].value
    return isinstance(call, Call) and call.op.same_as(gvar)


def _marked(func: relax.Function, choice: relax.If) -> relax.Function:
    rounds = [binding for block in choice.true_branch.blocks for binding in block.bindings]
    again = Call(relax.ExternFunc(_AGAIN), list(rounds.pop().value.args), ret_ty=relax.TupleType([]))
    rounds.append(relax.VarBinding(Var("again", again.ty), again))
    looped = relax.If(choice.cond, _branch(rounds), _branch([]))
    done = relax.BindingBlock([relax.VarBinding(Var("done", again.ty), looped)])
    body = relax.SeqExpr([done, *choice.false_branch.blocks], choice.false_branch.body)
    return relax.Function(func.params, body, func.ret_ty, is_pure=False, attrs=func.attrs)


def _branch(bindings: list[relax.Binding]) -> relax.SeqExpr:
    nothing = Var("nothing", relax.TupleType([]))
    return relax.SeqExpr(
        [relax.BindingBlock([*bindings, relax.VarBinding(nothing, relax.Tuple([]))])], nothing
    )


def close_loops(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """Turn each branch with a marked tail call into a while loop.

    Args:
        func: A Relax function as TVM generates code for it: its parameters are the first of its registers, and all that
            a mark is given are others.
    """
    return func.with_body(structural_map(func.body, [(tirx.IfThenElse, _closed)]))


def _closed(choice: tirx.IfThenElse) -> tirx.Stmt:
    steps = list(choice.then_case.seq) if isinstance(choice.then_case, tirx.SeqStmt) else [choice.then_case]
    marks = [step for step in steps if _is_mark(step)]
    if not marks:
        return choice
    body: list[tirx.Stmt] = []
    for step in steps:
        body += _next_round(step) if _is_mark(step) else [step]
    # TVM would compute the arguments of a loop's condition once, before the loop, so the condition is tested inside
    # it.
    leave = tirx.Evaluate(tirx.break_loop())
    return tirx.While(tirx.IntImm("bool", 1), tirx.IfThenElse(choice.condition, tirx.SeqStmt(body), leave))


def _is_mark(step: tirx.Stmt) -> bool:
    value = step.value if isinstance(step, tirx.Evaluate) else None
    return isinstance(value, Call) and value.op.same_as(_PACKED) and value.args[0].value == _AGAIN


def _next_round(mark: tirx.Evaluate) -> list[tirx.Stmt]:
    """Return the stores of the next iteration's arguments to the registers of the parameters."""
    items: list[Expr] = list(mark.value.args)[1:]
    return [
        tirx.Evaluate(
            Call(
                _SET,
                [item.args[0], tirx.IntImm("int32", index), StringImm("vm.builtin.copy"), item],
                ret_ty=mark.value.ty,
            )
        )
        for index, item in enumerate(items)
    ]
