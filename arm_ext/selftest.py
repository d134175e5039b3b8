# SPDX-License-Identifier: Apache-2.0
"""selftest.npz: inputs, our own numbers for them computed on this machine, and the source's runtime's."""

from collections.abc import Sequence

import numpy as np
import tvm
from tvm import relax

from arm_ext.frontends.imported import ImportedModel, TensorSpec
from arm_ext.manifest import Check
from arm_ext.package import Selftest
from arm_ext.pipeline import Context, build, run_phases
from arm_ext.target.profiles import baseline_host

_SEED = 0

# A sum of k products errs by about sqrt(k) * 2^-24 of its terms: 1e-4 leaves two digits beyond k = 1e5.
_FLOAT = Check(
    relative_bound=1e-4,
    reason="the order of sums and the rounding of multiply-adds differ between the host and the target",
)
# A quantised activation on the other side of a tie moves by a whole step, and what it feeds moves with it.
_FLOAT_QDQ = Check(
    relative_bound=0.1,
    reason="quantised operators are computed in float, where a last bit decides between two quantised values",
)


def random_inputs(specs: Sequence[TensorSpec]) -> list[np.ndarray]:
    """Return one seeded input a spec: standard normal floats; integers 0 and 1, which are safe as indices."""
    rng = np.random.default_rng(_SEED)
    values = []
    for spec in specs:
        dtype = np.dtype(spec.dtype)
        value = rng.standard_normal(spec.shape) if dtype.kind == "f" else rng.integers(0, 2, spec.shape)
        values.append(value.astype(dtype))
    return values


def make_selftest(model: ImportedModel, inputs: list[np.ndarray]) -> Selftest:
    """Compute `expected` through the same phases on this machine, and `source` by the source's runtime."""
    expected = run_on_host(model.mod, inputs)
    return Selftest(inputs, expected, *model.reference(inputs))


def check_of(model: ImportedModel) -> Check:
    """Return how outputs of the model are compared with `expected`."""
    return _FLOAT_QDQ if model.quantized else _FLOAT


def run_on_host(mod: tvm.IRModule, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Run an imported module on this machine.

    It is compiled for the baseline of the architecture, so that two x86 machines give the same bits.
    """
    profile = baseline_host()
    *_, (_, planned) = run_phases(mod, Context(profile))
    device = tvm.cpu()
    vm = relax.VirtualMachine(build(planned, profile), device)
    result = vm["main"](*(tvm.runtime.tensor(value, device) for value in inputs))
    outputs = [result] if isinstance(result, tvm.runtime.Tensor) else list(result)
    return [output.numpy() for output in outputs]
