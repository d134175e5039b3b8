# SPDX-License-Identifier: Apache-2.0
from collections.abc import Sequence

import ml_dtypes  # noqa: F401 (numpy then knows bfloat16)
import numpy as np
import pytest
from tvm import relax

from arm_ext.pipeline.selftest import run_on_host


@pytest.mark.parametrize("dtype", ["bool", "bfloat16", "float16", "float32", "float64"])
def test_comparisons_are_numpy_s(dtype: str):
    """TVM compares bools by instructions for floats, which LLVM refuses, and takes no NaN for unequal or greatest."""
    rng = np.random.default_rng(0)
    given = [rng.integers(0, 2, (4, 16)).astype(np.dtype(dtype)) for _ in range(2)]
    compared = [np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal]
    compared += [np.maximum, np.minimum]
    if dtype != "bool":
        given[0][1], given[1][:, 3] = np.nan, np.nan
    for result, op in zip(_run(compared, given, negated=False), compared, strict=True):
        wanted = op(*given)
        assert result.dtype == wanted.dtype
        np.testing.assert_array_equal(result.astype(float), wanted.astype(float))
    # Alone, as negations are fused with comparisons that nothing else reads.
    for result, op in zip(_run(compared[:-2], given, negated=True), compared[:-2], strict=True):
        np.testing.assert_array_equal(result, ~op(*given), strict=True)


def _run(operators: Sequence[np.ufunc], given: Sequence[np.ndarray], *, negated: bool) -> list[np.ndarray]:
    params = [
        relax.Var(name, relax.TensorType(x.shape, str(x.dtype))) for name, x in zip("ab", given, strict=True)
    ]
    builder = relax.BlockBuilder()
    with builder.function("main", params):
        with builder.dataflow():
            found = [builder.emit(getattr(relax.op, op.__name__)(*params)) for op in operators]
            found = [builder.emit(relax.op.logical_not(each)) for each in found] if negated else found
            output = builder.emit_output(relax.Tuple(found))
        builder.emit_func_output(output)
    return run_on_host(builder.get(), given)
