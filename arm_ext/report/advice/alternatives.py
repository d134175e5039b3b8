# SPDX-License-Identifier: Apache-2.0
"""Options of `compile` that could make a model faster, derived from its profile and report."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from arm_ext.report.advice.record import Alternative
from arm_ext.report.calls import KernelCall
from arm_ext.report.profile.record import ProfileReport
from arm_ext.report.report import CompileReport
from schedules.kernels.winograd import winograd_f32

INTEGER = ("qdq", "tosa")
"""Numerics of kernels that compute in integers."""

WITHOUT_KERNEL = "without-kernel"
"""The option of `compile` that takes a list."""

WORTH_BUILDING = 1.5
"""Greatest estimated cost, as a multiple of what it would replace, of an alternative that is built.

No formula is wrong by more."""

# Options that change the computed values.
_NUMBERS = {"precision", "quantize"}
# Number of costliest calls for whose kernels alternatives are sought.
_COSTLIEST = 5


def is_quantized(report: CompileReport) -> bool:
    """Return whether a model has integer kernels."""
    return any(kernel.numerics in INTEGER for kernel in report.kernels)


def alternatives(
    profile: ProfileReport,
    report: CompileReport,
    features: Collection[str],
    int8: Mapping[str, str] | None,
    tuned: Mapping[str, str] | None,
) -> Iterator[Alternative]:
    """Yield the alternatives that could apply; none of them is measured yet.

    Args:
        profile: Profile of the model as it is.
        report: Report of the same package.
        features: Features of the target, by LLVM's names.
        int8: Options that quantise the model, where there are calibration samples.
        tuned: Options that take a tuning database, where there is one.
    """
    if not is_quantized(report) and any(call.macs for call in profile.calls):
        yield from _precisions(features, int8)
    if any(call.kernel == winograd_f32.NAME for call in profile.calls):
        yield Alternative(
            name="no winograd",
            options={"winograd": False},
            why="the transforms of Winograd's convolutions cost more than a plain sum where there are few channels",
        )
    yield from _other_kernels(profile, report)
    if tuned is not None:
        yield Alternative(
            name="tuned",
            options=dict(tuned),
            why="the database may have faster parameters",
        )


def _precisions(features: Collection[str], int8: Mapping[str, str] | None) -> Iterator[Alternative]:
    if "fullfp16" in features:
        yield Alternative(
            name="fp16",
            options={"precision": "fp16"},
            why="an instruction has twice the products, and tensors half the bytes",
        )
    if "bf16" in features:
        yield Alternative(
            name="bf16",
            options={"precision": "bf16"},
            why="an instruction has four times the products, and weights half the bytes",
        )
    if int8 is not None:
        yield int8_alternative(int8)


def int8_alternative(options: Mapping[str, str]) -> Alternative:
    """Return the alternative that quantises the complete model by these options."""
    return Alternative(
        name="int8",
        options=dict(options),
        why="tensors have a quarter of the bytes, and an instruction more products",
    )


def _other_kernels(profile: ProfileReport, report: CompileReport) -> Iterator[Alternative]:
    """Yield alternatives that exclude the kernel of a costly call, if other kernels support all of its calls."""
    costly = [call.kernel for call in profile.costliest()[:_COSTLIEST]]
    for name in dict.fromkeys(costly):
        kernels = [kernel for kernel in report.kernels if kernel.kernel == name]
        if name == winograd_f32.NAME or not kernels or not all(kernel.other_kernels for kernel in kernels):
            continue
        shares = {
            kernel.symbol: sum(call.share for call in profile.calls if call.symbol == kernel.symbol)
            for kernel in kernels
        }
        now = sum(shares.values())
        then = sum(shares[kernel.symbol] * _ratio(kernel) for kernel in kernels)
        if now and then / now <= WORTH_BUILDING:
            others = ", ".join(sorted({kernel.other_kernels[0].kernel for kernel in kernels}))
            yield Alternative(
                name=f"without {name}",
                options={WITHOUT_KERNEL: [name]},
                why=f"{others} would take its place, and costs {then / now:.2f} times by the kernels' formulas",
            )


def _ratio(kernel: KernelCall) -> float:
    """Return the next best kernel's cost divided by the kernel's cost."""
    return kernel.other_kernels[0].selection_cost / (kernel.selection_cost or 1)


def exclude(options: Mapping[str, Any], others: Mapping[str, Any]) -> bool:
    """Return whether two sets of options exclude each other, because both change the computed values."""
    return bool(_NUMBERS & options.keys()) and bool(_NUMBERS & others.keys())


def merged_options(options: Mapping[str, Any], others: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of both sets."""
    kernels = [*options.get(WITHOUT_KERNEL, []), *others.get(WITHOUT_KERNEL, [])]
    return {**options, **others, **({WITHOUT_KERNEL: kernels} if kernels else {})}


def is_part(options: Mapping[str, Any], of: Mapping[str, Any]) -> bool:
    """Return whether all options of one set are in the other, with the same values."""
    return all(
        set(value) <= set(of.get(name, ())) if name == WITHOUT_KERNEL else of.get(name) == value
        for name, value in options.items()
    )
