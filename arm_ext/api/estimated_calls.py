# SPDX-License-Identifier: Apache-2.0
"""The kernel calls that `compile` would choose for a model, with their estimates, without generating code."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy.typing as npt

from arm_ext.api.build_options import BuildOptions
from arm_ext.api.model_source import Source
from arm_ext.api.plugins import with_plugins
from arm_ext.api.serial import serial
from arm_ext.frontends.load import prepared
from arm_ext.frontends.preprocess.options import Preprocess
from arm_ext.package.manifest import Method, Precision
from arm_ext.pipeline.kernel_cache import KernelCache
from arm_ext.report.call_rows import call_rows
from arm_ext.report.calls import CallRow, SourceNodes
from arm_ext.shapes.given import Given, buckets_of
from arm_ext.shapes.variants import unite


@serial
@with_plugins
def estimated_calls(
    model: str | Path,
    target: str,
    *,
    trust: bool = False,
    plugins: Sequence[str | Path] = (),
    values: Mapping[str, npt.ArrayLike] | None = None,
    mattr: str | None = None,
    shapes: Given | None = None,
    preprocess: Preprocess | str | Path | None = None,
    quantize: str | Path | None = None,
    calibration: Method = "minmax",
    precision: Precision = "fp32",
    winograd: bool = True,
    without: Sequence[str] = (),
    tuned: str | Path | None = None,
) -> tuple[CallRow, ...]:
    """Return the kernel calls of the package that `compile` would make with these arguments.

    Raises:
        UsageError, ModelError, EnvError: As `compile`, as far as it gets without generating code.
    """
    options = BuildOptions.checked(
        target, mattr, precision, without, tuned, plugins, winograd=winograd
    ).of_phases(kernel_cache=KernelCache())
    source = Source(
        prepared(model, values, trust=trust), preprocess, quantize=quantize, calibration=calibration
    )
    variants, _ = source.variants(buckets_of(shapes), options)
    for variant in variants:
        variant.run(None, lambda _: None)
    united = unite(variants)
    main = united.largest
    by_symbol = {kernel.symbol: kernel for kernel in united.result.kernels}
    return call_rows(united.calls, by_symbol, SourceNodes(main.model.nodes, main.macs))
