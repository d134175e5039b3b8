# SPDX-License-Identifier: Apache-2.0
"""The status of NPU regions since model.so was loaded: where each was computed, and why on the CPU."""

from typing import Literal

from pydantic import Field

from arm_ext.common.json_record import ClosedJsonRecord

STATUS = "arm_ext_npu_status"
"""Name of the function in model.so (TVM's C ABI) that returns an NpuStatus as JSON."""


class RegionRuns(ClosedJsonRecord):
    """How often a region was computed on the NPU and on the CPU, and the reason why it last ran on the CPU."""

    region: int = Field(description="Number of the region.")
    npu: int = Field(description="Number of times that the NPU computed it.")
    cpu: int = Field(description="Number of times that the CPU computed it.")
    reason: str = Field(description="Why the CPU computed it the last time; empty if it never did.")

    def text(self) -> str:
        """Return a line such as "NPU region 0 ran on the CPU: no /dev/accel/* is an Ethos-U"."""
        if not self.cpu:
            return f"NPU region {self.region} ran on the NPU"
        where = f"{self.npu} times on the NPU and {self.cpu} on the CPU" if self.npu else "on the CPU"
        return f"NPU region {self.region} ran {where}: {self.reason}"


class NpuStatus(ClosedJsonRecord):
    """Counts of NPU regions' runs since model.so was loaded."""

    mode: Literal["auto", "npu", "cpu"] = Field(description="Value of ARM_EXT_NPU.")
    device: str | None = Field(description="The NPU's device; null if none was found or asked for.")
    regions: tuple[RegionRuns, ...] = Field(
        description="How often each region was computed on the NPU and on the CPU."
    )

    def text(self) -> str:
        """Return the status as text, with one line per region."""
        on_npu = any(region.npu for region in self.regions)
        device = [f"NPU: {self.device}"] if on_npu and self.device else []
        return "\n".join([*device, *(region.text() for region in self.regions)])
