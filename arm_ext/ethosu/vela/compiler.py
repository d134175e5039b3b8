# SPDX-License-Identifier: Apache-2.0
"""Compilation by Vela in this process: a TOSA or TFLite flatbuffer to a payload with Vela's estimates."""

import importlib.metadata
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import tosa_serializer as ts
from ethosu import regor

from arm_ext.common.errors import ModelError, UsageError
from arm_ext.common.stdout import stdout_to
from arm_ext.ethosu.model.stream import unwrap
from arm_ext.ethosu.model.tables import table_beyond
from arm_ext.ethosu.payload import Kind, MemoryArea, Payload, PayloadTensor
from arm_ext.ethosu.tosa.graph import TosaGraph
from arm_ext.ethosu.vela.config import VelaOptions, configuration
from arm_ext.target.npu import Accelerator

Format = Literal["TOSA", "TFLITE"]

_IDENTIFIERS = {"TOSA": b"TOSA", "TFLITE": b"TFL3"}  # file identifier of a flatbuffer, at byte 4

# Kinds of the regions for separate inputs and outputs; Vela itself defines those of scratch and fast scratch.
_INPUT_REGION, _OUTPUT_REGION = 3, 4


# Columns of Vela's performance table, in the order of OperationEstimate's fields.
_LAYER_FIGURES = ("op_cycles", "npu_cycles", "mac_count", "staging_usage", "source_id")


class VelaError(ModelError):
    """Vela fails to compile a network, or its result exceeds the accelerator; the message is Vela's, or says why."""


@dataclass(frozen=True)
class Io:
    """Name, dtype and shape of an input or output of the network; Vela's result has no names and dtypes."""

    name: str
    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class MemoryUse:
    """Vela's estimate of the use of one memory."""

    name: str
    peak_bytes: int
    access_cycles: int


@dataclass(frozen=True)
class OperationEstimate:
    """Vela's estimate for one operation that it scheduled.

    Attributes:
        operator: Vela's name of the operation.
        name: Name of the network's tensor that it computes.
        cycles: Cycles from begin to end, memory stalls included.
        npu_cycles: Cycles of the MAC and elementwise engines alone.
        macs: Number of multiply-accumulates.
        staging_bytes: Bytes of fast memory in use while it runs.
        source: Number of the network's operator that it comes from; several operations may share one.
    """

    operator: str
    name: str
    cycles: int
    npu_cycles: int
    macs: int
    staging_bytes: int
    source: int


@dataclass(frozen=True)
class CompiledPayload:
    """A payload with Vela's estimates.

    Attributes:
        payload: Commands, weights, inputs and outputs.
        version: Version of Vela.
        system_config: System configuration that the estimates are for.
        memory_mode: Memory mode that the estimates are for.
        cycles: Cycles of the whole network.
        npu_cycles: Cycles without memory stalls.
        macs: Number of multiply-accumulates.
        memories: Use of each memory.
        layers: Estimates by operation, in Vela's order.
    """

    payload: Payload
    version: str
    system_config: str
    memory_mode: str
    cycles: int
    npu_cycles: int
    macs: int
    memories: tuple[MemoryUse, ...]
    layers: tuple[OperationEstimate, ...]


def vela_version() -> str:
    """Return the version of the installed Vela."""
    return importlib.metadata.version("ethos-u-vela")


def compile_network(
    network: bytes,
    format_: Format,
    npu: Accelerator,
    options: VelaOptions | None = None,
    *,
    inputs: Sequence[Io] | None = None,
    outputs: Sequence[Io] | None = None,
) -> CompiledPayload:
    """Compile a whole network for an accelerator.

    Args:
        network: The flatbuffer.
        format_: Format of the flatbuffer.
        npu: The accelerator.
        options: Options of Vela; the defaults are those of ExecuTorch.
        inputs: Names, dtypes and shapes of the inputs in the network's order; by default input0, … of a signed dtype
            with six dimensions.
        outputs: Names, dtypes and shapes of the outputs in the network's order; by default output0, ….

    Raises:
        VelaError: Vela fails, or leaves an operator to a CPU; the message is Vela's. Or it places a table beyond the
            table memory, as Vela 5.2 does for ethos-u55-32 where the producer of the table's input becomes several
            commands.
        UsageError: A configuration file, or a section in it, does not exist.
    """
    if network[4:8] != _IDENTIFIERS[format_]:
        # Vela does not check the identifier, and would crash the process.
        raise VelaError(f"{len(network)} bytes are not a {format_} flatbuffer: its identifier is missing")
    config = configuration(npu, options or VelaOptions())
    said = io.BytesIO()
    try:
        with stdout_to(said):
            model = regor.compile(npu.vela_name, network, format_, config.system, options=config.compiler)
    except RuntimeError as error:
        raise VelaError(_failure(npu, str(error), said)) from None
    if not isinstance(model, regor.CompiledRawModel) or model.perf_report.cpuOps:
        raise VelaError(_failure(npu, "operators of the network are left to a CPU", said))
    payload = _payload(model, npu, inputs, outputs)
    if (end := table_beyond(payload)) is not None:
        raise VelaError(
            _failure(
                npu,
                f"a table ends at {end:#x}, beyond the {npu.shram_kib << 10:#x} bytes of shared RAM",
                said,
            )
        )
    report = model.perf_report
    return CompiledPayload(
        payload,
        vela_version(),
        config.system_config,
        config.memory_mode,
        int(report.totalCycles),
        int(report.npuCycles),
        int(report.macCount),
        tuple(MemoryUse(m.memoryName, int(m.peakUsage), int(m.totalAccessCycles)) for m in _memories(report)),
        _layers(model.opt_database.tables),
    )


def check_configuration(npu: Accelerator, options: VelaOptions) -> None:
    """Compile a minimal network, to detect memory configurations with which Vela cannot compile any network.

    Raises:
        UsageError: Vela fails; the message is Vela's.
    """
    graph = TosaGraph(npu.family)
    image = [1, 1, 1, 16]
    no_padding, nans = [0, 0, 0, 0], ts.NanPropagationMode.PROPAGATE
    data = graph.input(image, "int8")
    graph.output(graph.add(ts.Op.MAX_POOL2D, [data], image, "int8", [1, 1], [1, 1], no_padding, nans))
    try:
        compile_network(graph.serialize(), "TOSA", npu, options)
    except VelaError as error:
        used = f"[System_Config.{options.system_config or npu.system_config}]"
        used += f" and [Memory_Mode.{options.memory_mode or npu.memory_mode}]"
        raise UsageError(
            f"{options.config or 'Vela'}: no network can be compiled with {used}: {error}"
        ) from None


def _failure(npu: Accelerator, error: str, said: io.BytesIO) -> str:
    text = "\n".join(
        part.strip() for part in (error, said.getvalue().decode(errors="replace")) if part.strip()
    )
    return f"Vela {vela_version()} for {npu.name}: {text}"


def _payload(
    model: Any, npu: Accelerator, inputs: Sequence[Io] | None, outputs: Sequence[Io] | None
) -> Payload:
    commands, weights = bytes(model.command_stream), bytes(model.read_only.data)
    stream = unwrap(commands)
    given = _tensors(model.inputs, inputs, "input"), _tensors(model.outputs, outputs, "output")
    sizes: dict[int, tuple[Kind, int]] = {int(model.read_only.region): ("weights", len(weights))}
    scratch: tuple[tuple[Kind, Any], ...] = (("scratch", model.scratch), ("fast", model.scratch_fast))
    for kind, area in scratch:
        if area.size:
            sizes[int(area.region)] = (kind, int(area.size))
    own: tuple[tuple[Kind, int, Sequence[PayloadTensor]], ...] = (
        ("input", _INPUT_REGION, given[0]),
        ("output", _OUTPUT_REGION, given[1]),
    )
    for kind, number, tensors in own:
        used = [t.offset + t.size for t in tensors if t.region == number]
        if used:
            sizes[number] = (kind, -(-max(used) // 16) * 16)
    regions = tuple(MemoryArea(number, kind, size) for number, (kind, size) in sorted(sizes.items()))
    return Payload(npu.name, stream.config, stream.arch, regions, *given, commands, weights)


def _tensors(compiled: Sequence[Any], named: Sequence[Io] | None, role: str) -> tuple[PayloadTensor, ...]:
    """Return inputs or outputs with the addresses that Vela assigned, and the network's names and dtypes."""
    if named is None:
        named = [Io(f"{role}{i}", f"int{8 * t.element_size}", tuple(t.shape)) for i, t in enumerate(compiled)]
    if role == "output" and len(compiled) < len(named):
        raise VelaError(f"Vela {vela_version()} keeps {len(compiled)} of {len(named)} outputs")
    if len(named) != len(compiled):
        raise ValueError(f"Vela has {len(compiled)} {role}s, but the caller names {len(named)}")
    tensors = []
    for given, found in zip(named, compiled, strict=True):
        scale = float(found.scale[0]) if len(found.scale) == 1 else None
        zero_point = int(found.zero_point[0]) if len(found.zero_point) == 1 else 0
        tensor = PayloadTensor(
            given.name, int(found.region), int(found.address), given.dtype, given.shape, scale, zero_point
        )
        if tensor.size != int(np.prod(found.shape)) * found.element_size:
            raise ValueError(
                f"{role} {given.name!r} is {given.dtype}{list(given.shape)}, "
                f"Vela has {list(found.shape)} of {found.element_size} bytes"
            )
        tensors.append(tensor)
    return tuple(tensors)


def _memories(report: Any) -> Sequence[Any]:
    memories = report.memories
    return list(memories.values()) if isinstance(memories, Mapping) else list(memories)


def _layers(tables: Mapping[str, Any]) -> tuple[OperationEstimate, ...]:
    if "perf" not in tables:
        return ()
    header = tables["perf"].header
    rows = [dict(zip(header, row, strict=False)) for row in tables["perf"].data]
    return tuple(
        OperationEstimate(
            row["operator"],
            row["name"],
            *(int(float(row[key] or 0)) for key in _LAYER_FIGURES),
        )
        for row in rows
    )
