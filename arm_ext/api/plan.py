# SPDX-License-Identifier: Apache-2.0
"""A package whose phases have run: its kernel calls have estimates; it is not linked and written yet."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnx

from arm_ext.api.build_options import BuildOptions
from arm_ext.api.compile import CompileResult
from arm_ext.api.model_source import Source
from arm_ext.api.mutual_exclusion import serial
from arm_ext.api.options import Options, gathered
from arm_ext.api.packing import Packing
from arm_ext.api.plugins import with_plugins
from arm_ext.common.known_packages import remember
from arm_ext.frontends.common.imported import ImportedModel
from arm_ext.frontends.load import prepared
from arm_ext.package import Package, Selftest
from arm_ext.package.writing import writing
from arm_ext.pipeline.kernel_cache import KernelCache
from arm_ext.report.call_rows import call_rows
from arm_ext.report.calls import CallRow, SourceNodes
from arm_ext.shapes.given import buckets_of


@serial
@with_plugins
def plan(
    model: str | Path | onnx.ModelProto,
    target: str,
    options: Options | None = None,
    *,
    change: Callable[[ImportedModel], ImportedModel] = lambda model: model,
    **more: Any,
) -> Packing:
    """Run the phases of `compile` with these options; `write_planned` does the remaining steps.

    Args:
        model: As for `compile`.
        target: Name of a profile.
        options: Options in one record.
        change: A change of the imported model, made for each set of shapes.
        more: Options by keyword.

    Raises:
        UsageError, ModelError, EnvError: As `compile`, as far as it gets without generating code.
    """
    o = gathered("plan", Options, options, more)
    build = BuildOptions.checked(target, o)
    phases = build.of_phases(kernel_cache=KernelCache() if o.npu is None else None)
    source = Source(prepared(model, o.values, trust=o.trust), o, o.npu is not None, change)
    variants, calibrated = source.variants(buckets_of(o.shapes), phases)
    build.refuse_indivisible(variants)
    return build.run(variants, calibrated, Path(), None, lambda _: None)


def planned_calls(planned: Packing) -> tuple[CallRow, ...]:
    """Return the kernel calls of a planned package, with their estimates."""
    merged = planned.merged
    by_symbol = {kernel.symbol: kernel for kernel in merged.result.kernels}
    nodes = SourceNodes(merged.largest.model.nodes, merged.largest.macs)
    return call_rows(merged.calls, by_symbol, nodes, planned.profile.core)


@serial
def write_planned(planned: Packing, output: Path, selftest: Selftest | None) -> CompileResult:
    """Link and write a planned package.

    Args:
        planned: The package.
        output: Folder of the package.
        selftest: A self-test to write if its tensors are those of the package; otherwise one is computed, which
            compiles the model for this machine, too.

    Raises:
        EnvError: The linker is missing or fails.
        InternalError: The result fails the compiler's own checks.
    """
    with writing(output, []) as folder:
        packing = replace(planned, folder=folder, selftest=selftest, reused=True)
        manifest, report = packing.write(packing.link(None, lambda _: None))
    remember(manifest.so_sha256)
    return CompileResult(Package(output, manifest), report)
