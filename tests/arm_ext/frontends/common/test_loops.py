# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: N805, N812, RET504 - TVMScript: functions of a module are no methods, I, R and T are its names
import resource

import numpy as np
import tvm
from tvm.script import ir as I
from tvm.script import relax as R

from arm_ext.frontends.common.loops import mark_loops, row_writer
from arm_ext.pipeline.machine_code import make_program
from arm_ext.pipeline.phases import PhaseOptions, PhaseResult, last, run_phases
from arm_ext.target.profiles import baseline_host
from relay_passes.ir.sources import map_calls, relax_functions, with_source

# A tensor of a round, of which none may be kept for another one.
FLOATS = 4096
ROUNDS = 100_000


@I.ir_module
class Counting:
    @R.function(private=True)
    def step(
        i: R.Tensor((), "int64"), x: R.Tensor((FLOATS,), "float32"), last: R.Tensor((), "int64")
    ) -> R.Tuple(R.Tensor((), "bool"), R.Tensor((), "int64"), R.Tensor((FLOATS,), "float32")):
        j = R.add(i, R.const(1, "int64"))
        y = R.add(x, R.const(1.0))
        go = R.less(j, last)
        return (go, j, y)

    @R.function(private=True)
    def loop(
        go: R.Tensor((), "bool"),
        i: R.Tensor((), "int64"),
        x: R.Tensor((FLOATS,), "float32"),
        last: R.Tensor((), "int64"),
    ) -> R.Tuple(R.Tensor((), "int64"), R.Tensor((FLOATS,), "float32")):
        cls = Counting
        if go:
            t = cls.step(i, x, last)
            r = cls.loop(t[0], t[1], t[2], last)
        else:
            r = (i, x)
        return r

    @R.function
    def main(
        go: R.Tensor((), "bool"), x: R.Tensor((FLOATS,), "float32"), last: R.Tensor((), "int64")
    ) -> R.Tuple(R.Tensor((), "int64"), R.Tensor((FLOATS,), "float32")):
        cls = Counting
        r = cls.loop(go, R.const(0, "int64"), x, last)
        return r


def counting() -> tvm.IRModule:
    mod = Counting.clone()
    for gvar, func in relax_functions(Counting):
        mod.update_func(gvar, map_calls(func, lambda _, call: with_source(call, ["count"])))
    return mod


def test_neither_stack_nor_memory_grows_with_the_rounds():
    profile = baseline_host()
    planned = last(run_phases(PhaseResult(counting()), PhaseOptions(profile))).mod
    machine = make_program(planned, profile, runs_here=True).machine()

    def run(go: bool, rounds: int) -> list[np.ndarray]:
        inputs = (np.array(go), np.zeros(FLOATS, np.float32), np.array(rounds))
        return [y.numpy() for y in machine["main"](*map(tvm.runtime.tensor, inputs))]

    run(True, 10)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    number, x = run(True, ROUNDS)
    assert number == ROUNDS
    assert (x == ROUNDS).all()
    # Each round has 16 KiB of its own: a thousand of them would be seen.
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 16 * 1024
    number, x = run(False, ROUNDS)
    assert (number, x.any()) == (0, False)


def test_what_does_not_call_itself_stays():
    mod = tvm.IRModule({gvar: func for gvar, func in Counting.functions_items() if gvar.name_hint == "step"})
    assert mark_loops(mod)["step"].same_as(mod["step"])


def test_a_row_is_written_where_it_belongs():
    kernel = row_writer(3, [2, 5], "float32").with_attr("global_symbol", "main")
    whole = tvm.runtime.tensor(np.zeros((3, 2, 5), np.float32))
    row = np.arange(10, dtype=np.float32).reshape(2, 5)
    tvm.compile(kernel, "llvm")(whole, tvm.runtime.tensor(row), tvm.runtime.tensor(np.array(1)))
    wanted = np.zeros((3, 2, 5), np.float32)
    wanted[1] = row
    np.testing.assert_array_equal(whole.numpy(), wanted)
