# SPDX-License-Identifier: Apache-2.0
"""The self-test: inputs, the outputs that this project computes on this machine, and those of the source's runtime."""

import hashlib
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import tvm
from tvm import relax

from arm_ext.common.distance import distance, says_nothing
from arm_ext.common.errors import EnvError, ModelError
from arm_ext.common.faults import is_out_of_memory
from arm_ext.common.text import counted
from arm_ext.common.timings import section
from arm_ext.frontends.common.imported import ImportedModel, Reference, TensorSpec
from arm_ext.frontends.common.inputs import other_inputs, with_lengths
from arm_ext.frontends.common.limits import machine_bytes, size_text
from arm_ext.package import Selftest
from arm_ext.package.manifest import Check, Precision
from arm_ext.pipeline import fingerprint
from arm_ext.pipeline.caches import SELFTEST_ENTRIES
from arm_ext.pipeline.kernel_cache import KernelCache
from arm_ext.pipeline.machine_code import make_program
from arm_ext.pipeline.macs import count_macs, count_steps
from arm_ext.pipeline.phases import IMPORT, LAST_OF_ALL_TARGETS, PhaseOptions, PhaseResult, last, run_phases
from arm_ext.pipeline.round_limit import count_rounds, limited_rounds
from arm_ext.target.profiles import Profile, baseline_host
from relay_passes.ir.sources import bindings_of, relax_functions
from schedules.diagnostic import Diagnostic
from schedules.kernels.depthwise import depthwise_f32
from schedules.kernels.gemm import gemm_f32
from schedules.kernels.winograd import winograd_f32
from schedules.numerics.qdq import NUMERICS, Qdq

STEPS = 4
"""Number of steps in the self-test of a model with states; the first one begins with the initial states."""

# A sum of k products has an error of about sqrt(k) * 2^-24 of its terms: 1e-4 leaves two digits at k = 1e5.
_FLOAT = Check(
    relative_bound=1e-4,
    differing=1e-3,
    reason="the order of sums and the rounding of multiply-adds differ between the host and the target",
)
# Maximum relative difference of two neighbouring numbers of the format.
_HALF_STEP: dict[Precision, float] = {"fp16": 2.0**-10, "bf16": 2.0**-7}
# Both sides quantise and dequantise with the same rounding, and integer sums do not depend on their order.
_INTEGER = Check(
    relative_bound=0.0,
    reason="every operator is computed in integers; quantising inputs and dequantising outputs are the same "
    "roundings of binary32 everywhere",
)
# Largest bound of a model in narrow types. A model whose outputs differ more from the source's needs another format.
_MOST_NARROW = 0.15
# If a value near a tie is rounded to the other side, it differs by a complete step, and so do all later values.
_MIXED_BOUND = 0.1
# Largest share of the elements of an integer output, such as an argmax, that rounding in narrow types may change: in a
# segmentation net with int8 or binary16 layers, 0.006 to 0.018 % of the pixels changed.
_MIXED_DIFFERING = 0.01

# Float kernels that are large, and slow on a machine with 16 short vectors: for MobileNetV2, LLVM takes 6.7 CPU
# seconds and a run 0.044, and with loops 1.6 and 0.008. The order of sums does not matter here.
_LARGE = (gemm_f32.NAME, depthwise_f32.NAME, winograd_f32.NAME)


_T = TypeVar("_T")


def with_fitting_inputs(
    compute: Callable[[list[npt.NDArray[Any]]], _T],
    inputs: list[npt.NDArray[Any]],
    given: bool,
    outputs_of: Callable[[_T], Sequence[npt.NDArray[Any]]],
) -> _T:
    """Return the result of `compute` for the inputs; if they fail or give constant outputs, for other inputs.

    Inputs that may be lengths of samples are first tried with the greatest lengths.

    Args:
        compute: Computes a result from inputs.
        inputs: The inputs to try first.
        given: Whether the user chose them: then no others are tried.
        outputs_of: Returns the model's outputs in a result. Of results whose outputs all are constant or NaN, the
            first is taken.

    Raises:
        ModelError: All inputs that were tried have an index out of bounds.
    """
    found, reason = [], ""
    lengths = None if given else with_lengths(inputs)
    first = [inputs] if lengths is None else [lengths, inputs]
    for values in itertools.chain(first, () if given else other_inputs(inputs)):
        try:
            result = compute(values)
        except IndexError as err:
            reason = reason or _indexed(err)
            continue
        if given or not all(map(says_nothing, outputs_of(result))):
            return result
        found.append(result)
    if found:
        return found[0]
    what = "the inputs given" if given else "random inputs, and zeros"
    raise ModelError(
        f"the self-test fails with {what}: {reason}; pass others as the argument `inputs` of arm_ext.compile, or by "
        "--inputs FILE.npz"
    )


def _indexed(error: IndexError) -> str:
    return str(error).strip().splitlines()[-1]


def make_selftest(
    model: ImportedModel,
    inputs: list[npt.NDArray[Any]],
    precision: Precision = "fp32",
    without: tuple[str, ...] = (),
    numerics: Qdq = NUMERICS,
    prepared: tvm.IRModule | None = None,
    steps: int = STEPS,
) -> Selftest:
    """Compute a self-test's `expected` through the same phases on this machine; `with_source` completes it.

    The expected outputs do not depend on the target, and so can be computed before it is known.

    Args:
        model: The imported model.
        inputs: Inputs of the self-test.
        precision: Dtype in which float operators compute.
        without: Names of kernels that are not to be used.
        numerics: Numerics of quantised operators.
        prepared: The model as `LAST_OF_ALL_TARGETS` leaves it with these numerics, if it is at hand.
        steps: Number of steps of a model with states.
    """

    def computed() -> bytes:
        run = host_runner(model, precision, without, numerics, prepared)
        with section("run"):
            expected = run(inputs)
            return Selftest([], expected, [], "", _steps(model, inputs, run, steps, expected)).to_bytes()

    key = "\0".join(
        (
            *(fingerprint.programs(), fingerprint.module(model.mod), fingerprint.arrays(inputs)),
            *(str(baseline_host().tvm_target()), precision, repr(without), type(numerics).__name__),
            repr([spec.batch for spec in model.inputs]),
            fingerprint.arrays(state.initial for state in model.states),
            str(steps),
        )
    )
    found = Selftest.from_bytes(SELFTEST_ENTRIES.get(hashlib.sha256(key.encode()).hexdigest(), computed))
    SELFTEST_ENTRIES.tidy()
    return replace(found, inputs=inputs)


def with_source(
    selftest: Selftest, reference: Reference, float_reference: Reference | None = None
) -> Selftest:
    """Return a self-test with the outputs of the source's runtime and, if there is one, of the source's float model."""
    with section("source's runtime"):
        source, runtime = reference(selftest.inputs)
        floats = [] if float_reference is None else float_reference(selftest.inputs)[0]
    return replace(selftest, source=source, source_runtime=runtime, floats=floats)


def host_runner(
    model: ImportedModel,
    precision: Precision = "fp32",
    without: tuple[str, ...] = (),
    numerics: Qdq = NUMERICS,
    prepared: tvm.IRModule | None = None,
) -> "Run":
    """Return a function that runs a model on this machine, sample by sample if the batch size is open.

    The arguments are those of `make_selftest`.
    """
    run = module_runner(model.mod, precision, without, numerics, prepared)
    if not any(spec.batch for spec in model.inputs):
        return run

    def run_each(inputs: Sequence[npt.NDArray[Any]]) -> list[npt.NDArray[Any]]:
        parts = [run(sample) for sample in samples_of(model.inputs, inputs)]
        return [np.concatenate(outputs) for outputs in zip(*parts, strict=True)]

    return run_each


def samples_of(
    specs: Sequence[TensorSpec], inputs: Sequence[npt.NDArray[Any]]
) -> list[list[npt.NDArray[Any]]]:
    """Return the inputs of each sample; if the batch size is fixed, one entry with all inputs."""
    count = next((len(x) for x, spec in zip(inputs, specs, strict=True) if spec.batch), None)
    if count is None:
        return [list(inputs)]
    pairs = list(zip(inputs, specs, strict=True))
    return [[x[i : i + 1] if spec.batch else x for x, spec in pairs] for i in range(count)]


def make_steps(
    model: ImportedModel, inputs: list[npt.NDArray[Any]], without: tuple[str, ...], numerics: Qdq
) -> list[list[npt.NDArray[Any]]]:
    """Compute the outputs of the first steps of a model with states, with the same inputs in each step.

    [] without states.
    """
    if not model.states:
        return []
    return _steps(model, inputs, module_runner(model.mod, "fp32", without, numerics), STEPS)


def _steps(
    model: ImportedModel,
    inputs: list[npt.NDArray[Any]],
    run: "Run",
    steps: int,
    expected: list[npt.NDArray[Any]] | None = None,
) -> list[list[npt.NDArray[Any]]]:
    """Return the outputs of the first steps of `main`; each step gets the states that the previous one returned.

    `expected` are the outputs of `main` for `inputs`, which are those of the first step if their states are initial.
    """
    count = len(model.states)
    if not count:
        return []
    states, found = [state.initial for state in model.states], []
    begun = all(map(np.array_equal, inputs[-count:], states))
    for step in range(steps):
        known = expected if step == 0 and begun else None
        outputs = run([*inputs[:-count], *states]) if known is None else known
        states = outputs[-count:]
        found.append(outputs[:-count] or states)
    return found


def check_of(
    model: ImportedModel, precision: Precision = "fp32", left_float: Sequence[Diagnostic] = ()
) -> Check:
    """Return how the outputs of a model are compared with `expected`.

    Args:
        model: The imported model.
        precision: Dtype in which float operators compute.
        left_float: Calls of a quantised model that compute in float.
    """
    precision = precision_of(model, precision)
    if precision in _HALF_STEP:
        layers = sum(count > 0 for count in count_macs(model.mod).values()) + count_steps(model.mod)
        return Check(
            relative_bound=_HALF_STEP[precision] * math.sqrt(max(layers, 1)),
            differing=_MIXED_DIFFERING,
            reason=f"the order of a sum decides between two neighbours in {precision}, "
            f"2^{math.log2(_HALF_STEP[precision]):.0f} apart; what its "
            f"{layers} convolutions, matrix products and steps of recurrent layers add to each other grows as the "
            "square root of their number",
        )
    if not model.quantized:
        return _FLOAT
    if not left_float:
        return _INTEGER
    operators = ", ".join(sorted({call.operator for call in left_float}))
    return Check(
        relative_bound=_MIXED_BOUND,
        differing=_MIXED_DIFFERING,
        reason=f"{counted(len(left_float), 'operator')} computed in float ({operators}), where a last bit decides "
        "between two quantised values",
    )


def precision_of(model: ImportedModel, precision: Precision) -> Precision:
    """Return the narrowest dtype in which a model's float operators compute, if it is compiled with `precision`."""
    halves = precision == "fp32" and not model.quantized and _has_halves(model.mod)
    return "fp16" if halves else precision


def with_measured(check: Check, precision: Precision, selftest: Selftest) -> Check:
    """Return a check whose bound allows for the distance of a model in narrow types from the source's outputs.

    Where a network amplifies what its layers round, two computations in the format differ from each other by more than
    the square root of the layers tells: by as much as each of them differs from the source, both together.

    Args:
        check: As `check_of` returns it.
        precision: As `precision_of` returns it.
        selftest: The model's self-test, with the source's outputs if its runtime can compute them.
    """
    if precision not in _HALF_STEP or len(selftest.source) != len(selftest.expected):
        return check
    pairs = zip(selftest.expected, selftest.source, strict=True)
    own = max((distance(*pair).relative for pair in pairs if pair[0].dtype.kind == "f"), default=0.0)
    bound = min(2 * own, _MOST_NARROW)
    if not math.isfinite(own) or bound <= check.relative_bound:
        return check
    return check.model_copy(
        update={
            "relative_bound": bound,
            "reason": f"computed in {precision} on the machine that compiled, the outputs differ by {own:.2g} from the "
            "source's, and those of another machine may differ by as much to the other side",
        }
    )


def _has_halves(mod: tvm.IRModule) -> bool:
    """Whether a module has binary16 values."""
    types = [binding.var.ty for _, func in relax_functions(mod) for binding in bindings_of(func)]
    return any(isinstance(ty, relax.TensorType) and str(ty.dtype) == "float16" for ty in types)


def run_on_host(
    mod: tvm.IRModule,
    inputs: Sequence[npt.NDArray[Any]],
    precision: Precision = "fp32",
    without: tuple[str, ...] = (),
    numerics: Qdq = NUMERICS,
) -> list[npt.NDArray[Any]]:
    """Run an imported module on this machine.

    It is compiled for the baseline of the architecture, so that two x86 machines give the same bits.
    """
    return module_runner(mod, precision, without, numerics)(inputs)


Run = Callable[[Sequence[npt.NDArray[Any]]], list[npt.NDArray[Any]]]
"""Function from inputs to outputs, both in the model's order."""


def run_planned(
    planned: tvm.IRModule, profile: Profile, inputs: Sequence[npt.NDArray[Any]]
) -> list[npt.NDArray[Any]]:
    """Run the module after the last phase on this machine."""
    return planned_runner(planned, profile)(inputs)


def module_runner(
    mod: tvm.IRModule,
    precision: Precision = "fp32",
    without: tuple[str, ...] = (),
    numerics: Qdq = NUMERICS,
    prepared: tvm.IRModule | None = None,
) -> Run:
    """Compile an imported module for this machine, and return a function that runs it."""
    profile = baseline_host()
    kernel_cache = KernelCache()
    options = PhaseOptions(profile, precision, (*without, *_LARGE), numerics, kernel_cache=kernel_cache)
    start, after = (mod, IMPORT) if prepared is None else (prepared, LAST_OF_ALL_TARGETS)
    planned = last(run_phases(PhaseResult(start), options, after=after)).mod
    return planned_runner(planned, profile, kernel_cache)


def planned_runner(planned: tvm.IRModule, profile: Profile, kernel_cache: KernelCache | None = None) -> Run:
    """Return a function that runs the module after the last phase on this machine.

    Args:
        planned: The module.
        profile: Target of the module.
        kernel_cache: Completes the kernels that the phases left without a body.
    """
    device = tvm.cpu()
    program = make_program(count_rounds(planned), profile, runs_here=True, kernel_cache=kernel_cache)
    vm = program.machine()

    def run(inputs: Sequence[npt.NDArray[Any]]) -> list[npt.NDArray[Any]]:
        try:
            with limited_rounds():
                result = vm["main"](*(tvm.runtime.tensor(value, device) for value in inputs))
        except (MemoryError, tvm.error.InternalError) as err:
            if is_out_of_memory(err):
                raise EnvError(
                    f"this machine, which has {size_text(machine_bytes())} of memory, cannot run the model "
                    "for the self-test: compile a smaller --shape, or on a machine with more"
                ) from err
            raise
        outputs = [result] if isinstance(result, tvm.runtime.Tensor) else list(result)
        return [output.numpy() for output in outputs]

    return run
