# SPDX-License-Identifier: Apache-2.0
"""Checks of the user's requirements on the division: no operators on the CPU, an SRAM budget."""

from collections.abc import Collection, Mapping

from arm_ext.common.errors import ModelError
from arm_ext.common.text import columns
from arm_ext.report.npu import NpuReport, reason_table, reasons_of
from schedules.diagnostic import Diagnostic

_SRAM = "Sram"  # Vela's name of the SRAM in every system configuration
_WIDEST = 5  # number of layers in a message, the same as for --memory-budget
_NAMED = 20  # maximum number of rejections in a message, so that it fits on a screen


def check_rejections(report: NpuReport, watched: Collection[str], macs: Mapping[str, int]) -> None:
    """Raise ModelError if an operator that the user watches (by default any operator) falls back to the CPU.

    Args:
        report: The report of the division.
        watched: Operator kinds and source nodes; if empty, all but conversions at the border to float.
        macs: Source node → multiply-accumulates.

    Raises:
        ModelError: Something falls back; the message has the reasons.
    """

    def counts(rejection: Diagnostic) -> bool:
        if not watched:
            return not rejection.unfit
        return bool({rejection.operator, *rejection.nodes} & set(watched))

    found = [rejection for rejection in report.rejections if counts(rejection)]
    if not found:
        return
    covered = {node for region in report.regions for node in region.sources}
    rows = [(", ".join(f.nodes), f.operator, f.why()) for f in found[:_NAMED]]
    more = [f"… and {len(found) - _NAMED} more"] if len(found) > _NAMED else []
    table = [
        *reason_table(reasons_of(found, macs, covered)),
        "",
        *columns([("node", "operator", "reason"), *rows]),
    ]
    raise ModelError(
        f"--fail-on-fallback: {len(found)} operator{'' if len(found) == 1 else 's'} would run on the CPU, not on "
        f"{report.accelerator}:\n" + "\n".join([*table, *more])
    )


def check_sram(report: NpuReport, budget: int) -> None:
    """Raise ModelError if a region's SRAM peak exceeds the budget; regions run one after the other.

    Raises:
        ModelError: A region takes more than the budget, in bytes; the message names its widest layers.
    """
    for region in report.regions:
        peak = next((memory.peak_bytes for memory in region.memories if memory.name == _SRAM), 0)
        if peak <= budget:
            continue
        widest = sorted(region.layers, key=lambda layer: -layer.staging_bytes)[:_WIDEST]
        layers = "\n".join(
            f"  {layer.staging_bytes:>12,} bytes  {', '.join(layer.sources) or layer.operator}"
            for layer in widest
        )
        others = ", ".join(f"{m.name} {m.peak_bytes:,} bytes" for m in region.memories if m.name != _SRAM)
        raise ModelError(
            f"NPU region {region.index} needs {peak:,} bytes of SRAM, which exceeds --sram-budget {budget:,}"
            f"{f' (and {others})' if others else ''}; in use at the widest layers:\n{layers}"
        )
