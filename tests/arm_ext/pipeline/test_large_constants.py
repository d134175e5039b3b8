# SPDX-License-Identifier: Apache-2.0
import ml_dtypes
import numpy as np
import pytest
import tvm
from tvm import relax

from arm_ext.pipeline.large_constants import LargeConstants

_PACK_IMPORTS = tvm.get_global_func("runtime.ModulePackImportsToTensor")
_RANDOM = np.random.default_rng(0)
_WEIGHTS = _RANDOM.standard_normal((16, 33)).astype("float32")


def _module(*arrays: np.ndarray) -> tvm.IRModule:
    """A module whose `main` returns constants, the first of them twice, and whose `early` returns the last."""
    builder = relax.BlockBuilder()
    for name, returned in (("main", (*arrays, arrays[0].copy())), ("early", arrays[-1:])):
        with builder.function(name, []):
            builder.emit_func_output(
                relax.Tuple([relax.const(tvm.runtime.tensor(each)) for each in returned])
            )
    return relax.transform.AttachGlobalSymbol()(builder.get())


def _built(mod: tvm.IRModule) -> tvm.runtime.Module:
    return relax.build(mod, tvm.target.Target("llvm"), relax_pipeline=None, exec_mode="bytecode").mod


def _whole(executable: tvm.runtime.Module) -> bytes:
    return _PACK_IMPORTS(executable).numpy().tobytes()


@pytest.mark.parametrize(
    "arrays",
    [
        (_WEIGHTS,),
        (_WEIGHTS, _WEIGHTS.reshape(33, 16), _WEIGHTS.view("int32")),  # the same bytes
        (_RANDOM.integers(-128, 128, (5, 7, 31), "int8"), np.float32(3), np.ones(1500, "bool"), _WEIGHTS),
        (_WEIGHTS.astype(ml_dtypes.bfloat16), np.arange(32, dtype="uint8"), np.zeros((0, 9), "int64")),
        (np.arange(7), np.arange(9)),  # none of them large
    ],
    ids=["one", "equal-bytes", "dtypes", "bfloat16-and-empty", "small"],
)
def test_the_parts_are_what_tvm_serialises(arrays: tuple[np.ndarray, ...]) -> None:
    mod, constants = _module(*map(np.asarray, arrays)), LargeConstants()
    parts = constants.serialised(_built(constants.replaced(mod)))
    assert b"".join(parts) == _whole(_built(mod))


def test_an_executable_with_placeholders_has_no_large_constant() -> None:
    large = _RANDOM.integers(0, 256, 100_000, "uint8")
    mod, constants = _module(large, large[1:]), LargeConstants()
    assert len(_whole(_built(constants.replaced(mod)))) < 2_000
    assert len(_whole(_built(mod))) > large.size
