# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.ir import Var
from tvm.relax.op import add, subtract

from relay_passes.batching.batch_loop import batch_loop
from relay_passes.memory.storage_offsets import accept_offsets

WIDTH = 7


@pytest.fixture(scope="module")
def machine() -> relax.VirtualMachine:
    """`main` adds a shift to each sample of x, and takes it from it: two results."""
    builder = relax.BlockBuilder()
    x = Var("x", relax.TensorType((1, WIDTH), "float32"))
    shift = Var("shift", relax.TensorType((WIDTH,), "float32"))
    with builder.function("main", [x, shift]):
        with builder.dataflow():
            both = builder.emit_output(
                relax.Tuple([builder.emit(add(x, shift)), builder.emit(subtract(x, shift))])
            )
        builder.emit_func_output(both)
    mod = builder.get()
    for upstream in (
        relax.transform.LegalizeOps(),
        relax.transform.ToNonDataflow(),
        relax.transform.RemovePurityChecking(),
        relax.transform.CallTIRRewrite(),
    ):
        mod = upstream(mod)
    mod = batch_loop(accept_offsets(mod), "main", [0])
    return relax.VirtualMachine(relax.build(mod, "llvm", exec_mode="compiled"), tvm.cpu())


@pytest.mark.parametrize("count", [0, 1, 2, 3, 7, 8, 100])
def test_each_sample_comes_out_at_its_place(machine: relax.VirtualMachine, count: int):
    rng = np.random.default_rng(count)
    x, shift = rng.standard_normal((count, WIDTH), np.float32), rng.standard_normal(WIDTH, np.float32)
    total, difference = (v.numpy() for v in machine["main"](tvm.runtime.tensor(x), tvm.runtime.tensor(shift)))
    np.testing.assert_array_equal(total, x + shift)
    np.testing.assert_array_equal(difference, x - shift)


def test_inputs_of_other_sizes_are_refused(machine: relax.VirtualMachine):
    with pytest.raises(RuntimeError, match="param=x"):
        machine["main"](*(tvm.runtime.tensor(np.zeros(s, np.float32)) for s in ((2, WIDTH + 1), (WIDTH,))))
