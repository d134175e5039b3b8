# SPDX-License-Identifier: Apache-2.0
"""Kernel selection: the kernel and parameters for a workload on a core, with the reason.

Activations are NHWC. Blocked layouts, [N, C / 8, H, W, 8] or C / 16, are not used: with the same tiles, where only
the segments of rows differ, they change instructions and cycles (llvm-mca for Neoverse N2), compared with NHWC, by

                                    float32                            int8, SMMLA
                            C / 8           C / 16           C / 8           C / 16
    3 x 3, 14, 128 to 256   +6.9 %, +7.8 %  +8.1 %, +11.2 %  +0.2 %, -0.1 %  +0.3 %,  0.0 %
    1 x 1, 14, 96 to 576    +1.5 %, +3.5 %  +4.3 %,  +0.6 %  +3.5 %, +0.1 %   0.0 %,  0.0 %
    1 x 1, 56, 64 to 256    +1.3 %, +3.4 %  +4.2 %,  +0.5 %  -0.2 %, +0.5 %  +9.5 %, +8.3 %

In a blocked layout a row of A has more and shorter segments; a tile of rows reads the same bytes, and almost the same
cache lines. Depthwise layers were not measured. They read a quarter (float32) or an eighth (int8) of a cache line at a
time; the four int8 rows of a 3 x 3 kernel at 112 x 96 are 43 KB, which stay in L1 until all bytes are read.

K blocking is not the default, because estimates do not model memory beyond L2; tuning tries it if a panel does not fit
L1 (see `k_blocking`). For 64 x 4096 x 384 in float32 on Cortex-A55, with the caches of the virtual board, K blocking
takes 24.9 M cycles instead of 41.3 M (46 % of which were waiting for caches), and 2 % fewer instructions.

Two other methods are not used:
- Direct convolution. An implicit GEMM reads the pixels in place; a 3 x 3 convolution takes at most 2.2 % more
  instructions than a plain product of the same size (28 x 28 x 64 and 14 x 14 x 256 in float32, 28 x 28 x 64 and
  14 x 14 x 128 in int8; Neoverse N2 and Cortex-A76), which are the cost of its border and its addresses.
- Winograd's F(2 x 2, 3 x 3) in fp16. For normally distributed data of 64 to 512 channels its greatest error, emulated
  in numpy, is 1.4e-3 to 2.2e-3 of the largest |output|, where `gemm_f16` has 0.5e-3 to 1.0e-3. It would save 20 % of
  the multiplications of ResNet-50 at most: 3 x 3 layers of stride 1 have 37 %, and 5 of 9 of these fall away.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from schedules.composites.workload import Workload
from schedules.cores import Core
from schedules.diagnostic import Diagnostic
from schedules.intrinsics import sme
from schedules.kernels.attention import attention_f32
from schedules.kernels.common.contract import Kernel, KernelMatch, declined
from schedules.kernels.depthwise import (
    depthwise_f32,
    depthwise_s8,
    depthwise_s8_dsp,
    depthwise_s8_mlal,
    depthwise_s8_mve,
    depthwise_s8_patch,
    depthwise_s8_thumb,
)
from schedules.kernels.elementwise import binary_s8_m, broadcast_s8, elementwise_s8
from schedules.kernels.gemm import (
    gather_blocks,
    gemm_bf16,
    gemm_blocks,
    gemm_blocks_f32,
    gemm_blocks_mmla,
    gemm_f16,
    gemm_f32,
    gemm_f32_sme,
    gemm_s8_dsp,
    gemm_s8_mlal,
    gemm_s8_mmla,
    gemm_s8_mve,
    gemm_s8_sdot,
    gemm_s8_sme,
    gemm_s8_thumb,
    gemm_w8,
    matmul_f32,
    matmul_s8,
    sparse_f32,
)
from schedules.kernels.normalization import norm_f32, norm_s8
from schedules.kernels.recurrent import lstm_s8, recurrent_f32, recurrent_s8
from schedules.kernels.softmax import softmax_f32, softmax_s8
from schedules.kernels.trees import tree_ensemble
from schedules.kernels.winograd import winograd_f32

KERNELS: tuple[Kernel, ...] = (
    gemm_f32,
    gemm_f16,
    gemm_bf16,
    gemm_w8,
    gemm_blocks_f32,
    gemm_blocks,
    gemm_blocks_mmla,
    gather_blocks,
    winograd_f32,
    depthwise_f32,
    elementwise_s8,
    broadcast_s8,
    depthwise_s8,
    gemm_s8_mmla,
    gemm_s8_sdot,
    depthwise_s8_mlal,
    depthwise_s8_patch,
    gemm_s8_mlal,
    matmul_s8,
    matmul_f32,
    attention_f32,
    softmax_s8,
    norm_s8,
    norm_f32,
    softmax_f32,
    recurrent_f32,
    recurrent_s8,
    lstm_s8,
    tree_ensemble,
    sparse_f32,
)
"""The kernels for A64; those that need no vector instructions of their own run on x86-64, too."""

SME_KERNELS: tuple[Kernel, ...] = (gemm_s8_sme, gemm_f32_sme)
"""The kernels for A64 with SME, beside those of `KERNELS`."""

MICROCONTROLLER_KERNELS: tuple[Kernel, ...] = (
    gemm_s8_mve,
    depthwise_s8_mve,
    gemm_s8_dsp,
    depthwise_s8_dsp,
    gemm_s8_thumb,
    depthwise_s8_thumb,
    binary_s8_m,
    tree_ensemble,
)
"""The kernels for Cortex-M. What they decline is computed by generic loops."""

ALL_KERNELS: tuple[Kernel, ...] = (*KERNELS, *SME_KERNELS, *MICROCONTROLLER_KERNELS)
"""The kernels for all cores."""


@dataclass(frozen=True)
class Known:
    """Kernel parameters that come from a tuning record or another source, and not from estimates.

    Attributes:
        params: An instance of a kernel's `Params`.
        source: Where the parameters come from.
    """

    params: Any
    source: str


Choose = Callable[[Workload, Core], Known | None]
"""A look-up of known good parameters, such as a tuning database; None for "not known"."""


@dataclass(frozen=True)
class Option:
    """A kernel that accepts a workload, with parameters and their estimate.

    Attributes:
        kernel: Name of a kernel.
        params: An instance of its `Params`.
        estimate: Cycles of one call on one core, from the kernel's model.
    """

    kernel: str
    params: Any
    estimate: float


@dataclass(frozen=True)
class Choice:
    """The kernel that was selected for a workload, and the reasons.

    Attributes:
        kernel: Name of the kernel.
        params: An instance of its `Params`.
        estimate: Cycles of one call on one core, from the kernel's model.
        reason: Why the kernel was chosen.
        rejected: The rejections of all kernels that declined the workload.
        others: The other accepting kernels, then other parameters of the chosen kernel, both in ascending order of
            estimates. Kernels prefer fewer instructions among estimates that are nearly equal, so that other parameters
            may have estimates that are a few percent lower.
        known: Source of the parameters that `choose` returned; "" if the estimate decided.
    """

    kernel: str
    params: Any
    estimate: float
    reason: str
    rejected: tuple[Diagnostic, ...]
    others: tuple[Option, ...] = ()
    known: str = ""


@dataclass(frozen=True)
class Rejected:
    """The result of `select` if no kernel accepts the workload; `rejections` has the reason of each kernel."""

    rejections: tuple[Diagnostic, ...]


def kernel_named(name: str, more: Sequence[Kernel] = ()) -> Kernel:
    """Return the kernel with this `NAME`, from those of all cores and `more`."""
    return next(kernel for kernel in (*ALL_KERNELS, *more) if name == kernel.NAME)


def kernels_for(core: Core) -> tuple[Kernel, ...]:
    """Return the kernels that are written for a core's instruction set."""
    if core.is_microcontroller:
        return MICROCONTROLLER_KERNELS
    return (*SME_KERNELS, *KERNELS) if sme.FEATURE in core.features else KERNELS


def select(
    workload: Workload,
    core: Core,
    choose: Choose | None = None,
    without: Collection[str] = (),
    more: Sequence[Kernel] = (),
) -> Choice | Rejected:
    """Select the kernel with the lowest estimate among those that match.

    Args:
        workload: Workload to compute.
        core: The core for which the kernel is selected.
        choose: Returns kernel parameters that override the estimates, or None.
        without: Names of kernels that must not be used.
        more: Kernels to select from in addition to those for the core.

    Returns:
        The choice, or all rejections if no kernel matches.

    Raises:
        ValueError: `choose` returned parameters of a kernel that declined the workload.
    """
    found = _defaults(workload, core, frozenset(without), (*kernels_for(core), *more))
    if not found.options:
        return Rejected(found.rejected)
    known = choose(workload, core) if choose else None
    if known is None:
        taken, source = min(found.options, key=_cycles), ""
    else:
        names = [option.kernel for option in found.options]
        takers = (kernel_named(name, more) for name in names)
        kernel = next((k for k in takers if isinstance(known.params, k.Params)), None)
        if kernel is None:
            raise ValueError(f"the look-up returned {known.params!r}, but only {names} accept {workload}")
        taken, source = _option(kernel, known.params, workload, core), known.source
    reason = found.reasons[taken.kernel] + (f"; by {source}" if source else "")
    kernels = (option for option in found.options if option.kernel != taken.kernel)
    others = (*sorted(kernels, key=_cycles), *_variants(taken, workload, core, tuple(more)))
    return Choice(taken.kernel, taken.params, taken.estimate, reason, found.rejected, others, source)


@dataclass(frozen=True)
class _Defaults:
    """The answers of all kernels for a workload: accepting kernels with default parameters, and rejections."""

    options: tuple[Option, ...]
    reasons: Mapping[str, str]
    rejected: tuple[Diagnostic, ...]


# Cached, because `select` is called repeatedly for a workload: for estimates of rewrites, equal layers and lowering.
@lru_cache(4096)
def _defaults(
    workload: Workload, core: Core, without: frozenset[str], kernels: Sequence[Kernel]
) -> _Defaults:
    answers = [(kernel, _matches(kernel, workload, core, without)) for kernel in kernels]
    matched = {kernel: answer for kernel, answer in answers if isinstance(answer, KernelMatch)}
    return _Defaults(
        tuple(_option(kernel, kernel.default(workload, core), workload, core) for kernel in matched),
        {kernel.NAME: answer.reason for kernel, answer in matched.items()},
        tuple(answer for _, answer in answers if isinstance(answer, Diagnostic)),
    )


def _option(kernel: Kernel, params: Any, workload: Workload, core: Core) -> Option:
    return Option(kernel.NAME, params, kernel.estimate(workload, params, core))


@lru_cache(4096)
def _variants(taken: Option, workload: Workload, core: Core, more: tuple[Kernel, ...]) -> tuple[Option, ...]:
    """Return the chosen kernel with its other parameters, in ascending order of estimates."""
    kernel = kernel_named(taken.kernel, more)
    found = (params for params in kernel.candidates(workload, core) if params != taken.params)
    return tuple(sorted((_option(kernel, params, workload, core) for params in found), key=_cycles))


def _cycles(option: Option) -> float:
    return option.estimate


def _matches(
    kernel: Kernel, workload: Workload, core: Core, without: Collection[str]
) -> KernelMatch | Diagnostic:
    answer = kernel.matches(workload, core)
    if isinstance(answer, KernelMatch) and kernel.NAME in without:
        return declined(kernel.NAME, "switched off", "on", "off")
    return answer
