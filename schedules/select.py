# SPDX-License-Identifier: Apache-2.0
"""Which kernel for which workload on which core, and the reason."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from schedules.cores import Core
from schedules.kernel import Kernel, Match, Rejection
from schedules.kernels import (
    attention_f32,
    depthwise_f32,
    depthwise_s8,
    depthwise_s8_mlal,
    elementwise_s8,
    gemm_bf16,
    gemm_f16,
    gemm_f32,
    gemm_s8_mlal,
    gemm_s8_mmla,
    gemm_s8_sdot,
    gemm_w8,
    matmul_s8,
    softmax_s8,
    winograd_f32,
)
from schedules.workload import Workload

KERNELS: tuple[Kernel, ...] = (
    gemm_f32,
    gemm_f16,
    gemm_bf16,
    gemm_w8,
    winograd_f32,
    depthwise_f32,
    elementwise_s8,
    depthwise_s8,
    gemm_s8_mmla,
    gemm_s8_sdot,
    depthwise_s8_mlal,
    gemm_s8_mlal,
    matmul_s8,
    attention_f32,
    softmax_s8,
)

Choose = Callable[[Workload, Core], Any]
"""A look-up of known good parameters, such as a tuning database: a kernel's `Params`, or None for "not known"."""


@dataclass(frozen=True)
class Choice:
    """The kernel that runs a workload.

    Attributes:
        kernel: Its name.
        params: An instance of its `Params`.
        estimate: Cycles of one call on one core, from the kernel's model.
        reason: Why it was taken.
        rejected: Every kernel that does not take the workload.
    """

    kernel: str
    params: Any
    estimate: float
    reason: str
    rejected: tuple[Rejection, ...]


@dataclass(frozen=True)
class Rejected:
    """No kernel takes the workload; `rejections` says why, kernel by kernel."""

    rejections: tuple[Rejection, ...]


def kernel_named(name: str) -> Kernel:
    """The kernel that a `Choice` names."""
    return next(kernel for kernel in KERNELS if name == kernel.NAME)


def select(
    workload: Workload, core: Core, choose: Choose | None = None, without: Collection[str] = ()
) -> Choice | Rejected:
    """Picks the kernel with the lowest estimate among those that match.

    Args:
        workload: What to compute.
        core: Where.
        choose: Overrules the estimate where it knows parameters.
        without: Names of kernels that are not to be used.

    Returns:
        The choice, or all rejections if no kernel matches.

    Raises:
        ValueError: `choose` returned parameters of a kernel that does not take the workload.
    """
    answers = [(kernel, _matches(kernel, workload, core, without)) for kernel in KERNELS]
    rejected = tuple(answer for _, answer in answers if isinstance(answer, Rejection))
    matched = [(kernel, answer) for kernel, answer in answers if isinstance(answer, Match)]
    if not matched:
        return Rejected(rejected)
    known = choose(workload, core) if choose else None
    if known is not None:
        for kernel, answer in matched:
            if isinstance(known, kernel.Params):
                cycles = kernel.estimate(workload, known, core)
                return Choice(kernel.NAME, known, cycles, f"{answer.reason}; chosen by look-up", rejected)
        raise ValueError(
            f"the look-up gave {known!r}, but only {[k.NAME for k, _ in matched]} take {workload}"
        )
    options = []
    for kernel, answer in matched:
        params = kernel.default(workload, core)
        options.append(
            Choice(kernel.NAME, params, kernel.estimate(workload, params, core), answer.reason, rejected)
        )
    return min(options, key=lambda choice: choice.estimate)


def _matches(kernel: Kernel, workload: Workload, core: Core, without: Collection[str]) -> Match | Rejection:
    answer = kernel.matches(workload, core)
    if isinstance(answer, Match) and kernel.NAME in without:
        return Rejection(kernel.NAME, "switched off", "on", "off")
    return answer
