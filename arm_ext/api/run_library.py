# SPDX-License-Identifier: Apache-2.0
"""Runs of C libraries for Cortex-M on emulated boards."""

import os
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from arm_ext.board.bare import MACHINES, MATH, BareBoard, BareModel, BareResult, machine_for
from arm_ext.board.bare_npu import ModelledRegion
from arm_ext.common.errors import EnvError, UsageError
from arm_ext.common.json_record import ClosedRecord
from arm_ext.common.npu_status import NpuStatus, RegionRuns
from arm_ext.ethosu.model import run as run_on_model
from arm_ext.ethosu.payload import Payload
from arm_ext.package import Package, Selftest
from arm_ext.package.manifest import Tensor
from arm_ext.target.profiles import Profile, with_features
from relay_passes.memory.plan_arena import aligned

Array = npt.NDArray[Any]

VIRTUAL = "virtual"
_OK, _ERROR_NPU = 0, 12  # of the library's header
_NPU_PROGRAM = frozenset(
    {"all", "ethosu_invoke_v3", "npu_clean", "npu_invalidate", "read_all", "tell", "write_all"}
)
_MODE = "ARM_EXT_NPU"  # environment variable: "cpu" is for a board without the NPU


def profile_of(library: Package) -> Profile:
    """Return the profile that a library was compiled for, with the features that --mattr left."""
    target = library.manifest.target
    return with_features(target.profile, target.features)


def check_board(library: Package, board: str) -> None:
    """Refuse a board on which the library does not run.

    Raises:
        UsageError: The board is not the emulated one for the library's core.
    """
    machine, _ = machine_for(library.manifest.target.core)
    if board not in {VIRTUAL, f"{VIRTUAL}:{machine.name}", machine.name}:
        others = ", ".join(MACHINES)
        raise UsageError(
            f"--board {board}: {library.path} is a C library for {library.manifest.target.core}, which runs on the "
            f"emulated board {machine.name} (--board virtual); of emulated boards there are {others}"
        )


def selftest_of(library: Package) -> Selftest:
    """Read the self-test of a library: inputs, expected outputs, and those of steps."""
    manifest = library.manifest
    assert manifest.library is not None
    name = "selftest" if manifest.library.archive is None else manifest.library.name
    data, at = library.read(f"example/{name}.bin"), 0

    def arrays(tensors: Sequence[Tensor]) -> list[Array]:
        nonlocal at
        found = []
        for tensor in tensors:
            count = int(np.prod(tensor.shape, dtype=np.int64))
            found.append(np.frombuffer(data, tensor.dtype, count, at).reshape(tensor.shape))
            at += aligned(found[-1].nbytes)
        return found

    inputs, expected = arrays(manifest.inputs), arrays(manifest.outputs)
    returned, steps = outputs_of_steps(library), []
    while manifest.states and at < len(data):
        steps.append(arrays(returned))
    return Selftest(inputs, expected, [], "", steps)


def outputs_of_steps(library: Package) -> list[Tensor]:
    """Return the outputs of a step: those that are no states, or all if every output is one."""
    states = {state.output for state in library.manifest.states}
    outputs = library.manifest.outputs
    return [tensor for tensor in outputs if tensor.name not in states] or outputs


def bare_model(library: Package, *, steps: bool = False) -> BareModel:
    """Return what a board links of a library.

    Args:
        library: The library.
        steps: Whether runs are steps of a model with states.

    Raises:
        UsageError: The library has what the program on the emulated board does not provide.
    """
    manifest = library.manifest
    info = manifest.library
    assert info is not None
    tensors = (*manifest.inputs, *manifest.outputs)
    missing = [name for name in info.requires if not name.startswith(("__", "mem")) and name not in MATH]
    for reason, found in (
        ("it takes inputs of several shapes", bool(manifest.buckets)),
        ("its weights are in a file (--weights file)", (library.path / f"lib{info.name}.weights").exists()),
        ("its arena has several regions (--memory)", len(info.regions) > 1),
        ("it has models beside it", info.archive is not None),
        ("sizes of its inputs are given at run time", any(tensor.open or tensor.batch for tensor in tensors)),
        (f"it calls {', '.join(missing)} of libm", bool(missing)),
    ):
        if found:
            raise UsageError(
                f"{library.path}: {reason}, which emulated boards do not support; build the example in "
                f"{library.path / 'example'} for your board"
            )
    count = len(manifest.states) if steps else 0
    outputs = outputs_of_steps(library) if steps else manifest.outputs
    return BareModel(
        library.path.resolve(),
        info.archive or info.name,
        info.name,
        profile_of(library),
        [_described(tensor) for tensor in manifest.inputs[: len(manifest.inputs) - count]],
        [_described(tensor) for tensor in outputs],
        steps,
        _regions(library),
        os.environ.get(_MODE) == "cpu",
        [name for name in info.requires if name in MATH],
    )


def _regions(library: Package) -> list[ModelledRegion]:
    """Return the library's regions for an NPU, and the functional model that computes them."""
    npu = library.manifest.npu
    regions = () if npu is None else npu.regions
    return [_modelled(library.read(f"npu/region-{number}.payload")) for number in range(len(regions))]


def _modelled(data: bytes) -> ModelledRegion:
    payload = Payload.from_bytes(data)
    numbers = {area.kind: area.number for area in payload.regions if area.size}

    def compute(scratch: bytes) -> list[tuple[int, bytes]]:
        inputs = [
            np.frombuffer(scratch[each.offset :][: each.size], each.dtype).reshape(each.shape)
            for each in payload.inputs
        ]
        outputs = zip(payload.outputs, run_on_model(payload, inputs), strict=True)
        return [(tensor.offset, value.tobytes()) for tensor, value in outputs]

    weights = {numbers["weights"]: payload.weights} if "weights" in numbers else {}
    return ModelledRegion(payload.commands, weights, numbers["scratch"], compute)


def _described(tensor: Tensor) -> tuple[tuple[int, ...], str]:
    return tuple(int(size) for size in tensor.shape), tensor.dtype


def run_on_bare(
    library: Package,
    board: str,
    batches: Sequence[Sequence[Array]],
    *,
    steps: bool = False,
    count: bool = False,
    faults: Collection[int] = (),
) -> BareResult:
    """Run a library on some sets of inputs, one after the other.

    Args:
        library: The library.
        board: "virtual", or the name of the emulated board for the library's core.
        batches: Sets of inputs.
        steps: Whether each is a step of a model with states.
        count: Whether instructions are counted.
        faults: Numbers of invocations of the NPU, from 0 on, that fail.

    Raises:
        UsageError: The board or the library is unsuited.
        EnvError: The emulator is missing or failed, or the library returned an error.
    """
    check_board(library, board)
    result = BareBoard(bare_model(library, steps=steps)).run(batches, count=count, faults=faults)
    if _ERROR_NPU in result.statuses:
        raise EnvError(f"{library.path}: a region failed on the NPU, and nothing else is to compute it")
    if wrong := [status for status in result.statuses if status != _OK]:
        raise EnvError(f"{library.path}: a run ended with status {wrong[0]} (see {_header(library)})")
    return result


def _header(library: Package) -> Path:
    assert library.manifest.library is not None
    return library.path / "include" / f"{library.manifest.library.name}.h"


def npu_status(library: Package, result: BareResult) -> NpuStatus | None:
    """Return where the regions of a library ran; None for a library without regions."""
    npu = library.manifest.npu
    if npu is None or not npu.regions:
        return None
    on_cpu, given = os.environ.get(_MODE) == "cpu", Counter(result.npu)
    return NpuStatus(
        mode="cpu" if on_cpu else "auto",
        device=None if on_cpu else f"a functional model of {npu.accelerator}",
        regions=tuple(
            RegionRuns(
                region=number,
                npu=given["run", number],
                cpu=len(result.outputs) - given["run", number],
                reason=f"{_MODE}=cpu" if on_cpu else "",
            )
            for number in range(len(npu.regions))
        ),
    )


def named_outputs(library: Package, outputs: Sequence[Array]) -> Mapping[str, Array]:
    """Return the outputs of a run by name."""
    return {tensor.name: value for tensor, value in zip(library.manifest.outputs, outputs, strict=True)}


class FunctionCount(ClosedRecord):
    """The retired instructions of a function in one inference."""

    symbol: str = Field(description="The function: a kernel of the library, or a routine that it calls.")
    instructions: int = Field(description="Retired instructions in the function itself.")
    share: float = Field(description="Their share of all.")


class BareCount(ClosedRecord):
    """What one inference of a C library executes on an emulated microcontroller."""

    schema_version: Literal[1] = 1
    kind: Literal["microcontroller"] = "microcontroller"
    board: str = Field(description="QEMU's name of the emulated board.")
    core: str = Field(description="Core that the library was compiled for.")
    stands_in: str = Field(
        description="What runs the code in the place of that core; empty if it does itself."
    )
    instructions: int = Field(description="Retired instructions of one inference, the same in each.")
    macs: int = Field(description="Multiply-accumulates of the model.")
    stack_bytes: int = Field(description="Stack that the inference took, found by painting.")
    arena_bytes: int = Field(description="Size of the arena.")
    functions: tuple[FunctionCount, ...] = Field(description="By function, the most instructions first.")
    npu: None = None
    note: str = (
        "Counts are of an emulator: instructions, and not cycles of a core. A Cortex-M retires at most one instruction "
        "a cycle (M7 and M85 two), and fewer where it waits for memory. The end of a low-overhead loop counts in each "
        "iteration. What an NPU computes is not counted."
    )


def count(library: Package, board: str) -> BareCount:
    """Count the instructions of one inference with the self-test's inputs; of one step for a model with states.

    Raises:
        UsageError, EnvError: As `run_on_bare`.
    """
    manifest = library.manifest
    assert manifest.library is not None
    machine, stands_in = machine_for(manifest.target.core)
    inputs, steps = selftest_of(library).inputs, bool(manifest.states)
    own = inputs[: len(inputs) - len(manifest.states)] if steps else inputs
    result = run_on_bare(library, board, [own], steps=steps, count=True)
    (counted,) = result.counts
    # What asks the model of an NPU is no part of a firmware.
    counted = {name: number for name, number in counted.items() if name not in _NPU_PROGRAM}
    total = sum(counted.values())
    ordered = sorted(counted.items(), key=lambda item: (-item[1], item[0]))
    return BareCount(
        board=machine.name,
        core=manifest.target.core,
        stands_in=stands_in,
        instructions=total,
        macs=manifest.macs,
        stack_bytes=result.stack_bytes,
        arena_bytes=manifest.library.arena_bytes,
        functions=tuple(
            FunctionCount(symbol=name, instructions=number, share=number / total) for name, number in ordered
        ),
    )
