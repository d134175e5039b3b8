# SPDX-License-Identifier: Apache-2.0
"""The division of one model between NPU and CPU, for verbs that look at it and write no package."""

from typing import TYPE_CHECKING

from arm_ext.ethosu.options import NpuOptions, require_packages
from arm_ext.frontends.common.imported import ImportedModel
from arm_ext.pipeline.macs import count_macs

if TYPE_CHECKING:
    from arm_ext.ethosu.partition.phase import Partitioner


def partitioner(npu: NpuOptions | str, imported: ImportedModel) -> "Partitioner":
    """Return what divides a model as its phases go on.

    Raises:
        UsageError: The model is not quantised, or has control flow; an option of the NPU is wrong.
        EnvError: Vela is not installed.
    """
    require_packages()
    # Not above: the packages that it needs may be missing where there is no NPU.
    from arm_ext.ethosu.partition.divider import Divider, check_divisible
    from arm_ext.ethosu.partition.phase import Partitioner

    check_divisible(imported)
    divider = Divider(npu if isinstance(npu, NpuOptions) else NpuOptions(npu))
    return Partitioner(divider, imported, count_macs(imported.mod), first=0)
