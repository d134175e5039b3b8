# SPDX-License-Identifier: Apache-2.0
"""The function that is called is the last one whose flags the kernel of this machine sets."""

import ctypes

import numpy as np
import pytest
import tvm
from tvm import relax, tirx
from tvm.ir import Var
from tvm.relax.op import multiply

from relay_passes.programs.cpu_dispatch import Flags, dispatch_by_cpu

NAMES = ("first", "second", "third")
"""Functions, which multiply by 1, 2 and 3."""

_getauxval = ctypes.CDLL(None).getauxval
_getauxval.restype, _getauxval.argtypes = ctypes.c_ulong, [ctypes.c_ulong]
SET = _getauxval(16) & 0xFFFFFFFF
"""This machine's AT_HWCAP."""
HAS = SET & -SET
LACKS = ~SET & (SET + 1)


def functions() -> tvm.IRModule:
    """Each takes [n, 2], and multiplies by its factor."""
    builder = relax.BlockBuilder()
    for factor, name in enumerate(NAMES, 1):
        n = tirx.Var("n", "int64")
        x = Var("x", relax.TensorType((n, 2), "float32"))
        with builder.function(name, [x], private=True):
            with builder.dataflow():
                y = builder.emit_output(multiply(x, relax.const(factor, "float32")))
            builder.emit_func_output(y)
    return builder.get()


@pytest.mark.parametrize(
    ("second", "third", "called"),
    [
        ((HAS, 0), (HAS, 0), 3),
        ((HAS, 0), (HAS | LACKS, 0), 2),
        ((LACKS, 0), (LACKS, 0), 1),
        # No kernel sets this bit of AT_HWCAP2.
        ((HAS, 0), (HAS, 1 << 62), 2),
        ((HAS | LACKS, 0), (HAS | LACKS, 1 << 62), 1),
    ],
)
def test_the_last_function_that_the_cpu_can_run_is_called(second: Flags, third: Flags, called: int):
    assert HAS
    assert LACKS
    mod = dispatch_by_cpu(functions(), NAMES, [(0, 0), second, third])
    mod = relax.transform.Normalize()(mod)
    vm = relax.VirtualMachine(tvm.compile(mod, "llvm"), tvm.cpu())
    for rows in (1, 3):
        x = np.ones((rows, 2), np.float32)
        np.testing.assert_array_equal(vm["main"](tvm.runtime.tensor(x)).numpy(), called * x)
