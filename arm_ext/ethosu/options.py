# SPDX-License-Identifier: Apache-2.0
"""`NpuOptions`: the options of `--npu`."""

import importlib.util
import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from arm_ext.common.errors import EnvError, UsageError
from arm_ext.common.names import near, node_of
from arm_ext.target.npu import Family

OnNpuError = Literal["fallback", "fail"]
NpuFallback = Literal["cpu", "none"]

DEFAULT_CPU_MHZ: dict[Family, float] = {"u55": 800.0, "u65": 1700.0, "u85": 1700.0}
"""Default CPU clock in MHz by family: that of the Cortex-A32 beside the U55 in Alif's Ensemble E7, and of the
Cortex-A55 beside the U65 in NXP's i.MX 93 (data sheets); the latter is assumed for U85, too."""

HANDOVER_US = 20.0
"""Assumed for one submission and its completion, in microseconds: a call into a Linux driver, an interrupt, and the
switch back to the caller. Bare metal takes less, a loaded system more."""

_NAMED = 4  # operators in a question

_PACKAGES = {
    "ethosu": "ethos-u-vela",
    "tosa_serializer": "tosa-tools",
}  # module → the Python package that contains it


@dataclass(frozen=True)
class NpuOptions:
    """The options by which a model is divided between an NPU and the CPU; operators are named by kind or source node.

    Attributes:
        accelerator: Name of the accelerator, such as "ethos-u65-256".
        npu_ops: Only these operators may run on the NPU, whatever they cost; empty for all.
        cpu_ops: Operators that stay on the CPU.
        fail_on_fallback: Whether an operator on the CPU is an error; regions are then not weighed against the CPU.
        fallback_ops: If not empty, `fail_on_fallback` is about these operators only.
        system_config: Section of Vela's configuration; by default what suits the accelerator.
        memory_mode: Vela's memory mode, by default the accelerator's.
        vela_config: A vela.ini instead of Vela's own.
        sram_budget: Largest peak of SRAM that a region may take, in bytes; Vela aims at it.
        cpu_mhz: Clock of the CPU, for weighing; by default as DEFAULT_CPU_MHZ says.
        npu_mhz: Clock of the NPU; by default core_clock of the system configuration.
        handover_us: Microseconds of handing a region over, for weighing; by default as HANDOVER_US says.
        on_npu_error: Whether a region that fails on the NPU is computed by the CPU, or is the caller's error.
        npu_fallback: Whether a C library holds the CPU's code and weights for regions, too.
    """

    accelerator: str
    npu_ops: tuple[str, ...] = ()
    cpu_ops: tuple[str, ...] = ()
    fail_on_fallback: bool = False
    fallback_ops: tuple[str, ...] = ()
    system_config: str | None = None
    memory_mode: str | None = None
    vela_config: Path | None = None
    sram_budget: int | None = None
    cpu_mhz: float | None = None
    npu_mhz: float | None = None
    handover_us: float = HANDOVER_US
    on_npu_error: OnNpuError = "fallback"
    npu_fallback: NpuFallback = "cpu"

    def __post_init__(self) -> None:
        for name, mhz in (("--cpu-mhz", self.cpu_mhz), ("--npu-mhz", self.npu_mhz)):
            if mhz is not None and not 0 < mhz < math.inf:
                raise UsageError(f"{name} {mhz:g}: expected a finite clock frequency in MHz, above 0")
        if not 0 <= self.handover_us < math.inf:
            raise UsageError(
                f"--handover-us {self.handover_us:g}: expected a finite number of microseconds, 0 or more"
            )


@dataclass(frozen=True)
class Names:
    """The names by which options can refer to operators.

    Attributes:
        kinds: Kinds of operators, as the report names them.
        nodes: Source node → its operator in the model's own format.
    """

    kinds: Collection[str]
    nodes: Mapping[str, str]

    def resolve(self, option: str, names: Iterable[str]) -> frozenset[str]:
        """Return the kinds and source nodes of the names; an operator of the model's format stands for all its nodes.

        Raises:
            UsageError: A name is no kind, source node or operator of the model.
        """
        found: set[str] = set()
        for name in names:
            of_operator = {node for node, operator in self.nodes.items() if operator == name}
            node = node_of(name, self.nodes)
            meant = of_operator | ({name} if name in self.kinds else {node} if node is not None else set())
            if not meant:
                raise UsageError(f"{option}: the model has no operator {name!r}; {self._near(name)}")
            found |= meant
        return frozenset(found)

    def _near(self, name: str) -> str:
        """Return kinds and operators whose name contains `name`, or similar names, as a model may have thousands."""
        kinds = {*self.kinds, *self.nodes.values()}
        if holding := sorted(
            (kind for kind in kinds if name.lower() in kind.lower()), key=lambda k: (len(k), k)
        ):
            return f"did you mean {' or '.join(holding[:_NAMED])}?"
        said = near(name, {*kinds, *self.nodes})
        return said if said.startswith("did you mean") else "report.json of a compile without it names them"


def require_packages() -> None:
    """Check that the packages that `--npu` compiles with are installed.

    Raises:
        EnvError: A package is missing.
    """
    for module, package in _PACKAGES.items():
        if importlib.util.find_spec(module) is None:
            raise EnvError(
                f"--npu needs {package}, which is not installed; run: pip install 'tvm-arm-ext[npu]'"
            )
