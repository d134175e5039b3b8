# SPDX-License-Identifier: Apache-2.0
"""The payload: one file with everything that an Ethos-U needs to run one region of a model.

Layout (little endian; records are packed; offsets count from the file's first byte):

    offset  size  what
         0     8  magic: "ETHOSU", CR, LF
         8     4  format version (1)
        12     4  file size in bytes
        16    32  SHA-256 of all bytes from offset 48 on
        48    16  accelerator, ASCII padded with NUL, such as "ethos-u65-256"
        64     4  CONFIG register that the stream was made for
        68     4  architecture version (the ID register's upper half, as the stream's header holds it)
        72     4  number of regions        76  4  number of inputs       80  4  number of outputs
        84     4  offset of the commands   88  4  bytes of the commands (a multiple of 4)
        92     4  offset of the weights    96  4  bytes of the weights
       100     4  offset of the names     104  4  bytes of the names
       108   4+4  0
       116        regions, inputs, outputs; then names, padding, commands, padding, weights

    region    (16 bytes)  u32 number (as in NPU_SET_*_REGION), u32 kind (_KINDS), u64 bytes
    tensor    (72 bytes)  u32 name offset in names, u32 name bytes, u32 region, u32 dtype (_DTYPES), u64 offset in
                          region, u64 bytes, f64 scale (0: none), i32 zero point, u32 rank (≤ 6), 6 x u32 shape

Commands and weights begin at multiples of 16. The commands are Vela's container (COP1 or COP2), as
`ethosu_invoke_v3` takes it; a Linux driver wants the stream without the container's header
(`model.stream.unwrap` gives it). The region of kind "weights" is the weights' bytes and nothing else.
"""

import hashlib
import math
import struct
from dataclasses import dataclass
from typing import Literal, get_args

from arm_ext.common.errors import UsageError
from arm_ext.target.npu import ACCELERATORS, Accelerator

Kind = Literal["weights", "scratch", "fast", "input", "output"]

_MAGIC = b"ETHOSU\r\n"
_VERSION = 1
_PREFIX = struct.Struct("<8sII32s")
_HEADER = struct.Struct("<16s13I")
_REGION = struct.Struct("<IIQ")
_TENSOR = struct.Struct("<IIIIQQdiI6I")
_ALIGNMENT = 16  # alignment of weights and commands in bytes; required by the NPU and its drivers

_KINDS: tuple[Kind, ...] = get_args(Kind)
_DTYPES = ("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64")
_BYTES = {name: 1 if name == "bool" else int(name.lstrip("uint")) // 8 for name in _DTYPES}
_MAX_RANK = 6


class PayloadError(UsageError):
    """A payload file that is truncated, altered, or of another format version."""


@dataclass(frozen=True)
class MemoryArea:
    """A memory area that commands address.

    Attributes:
        number: Number by which commands address the area (0-7).
        kind: "weights" (constant), "scratch" (the arena; holds inputs and outputs unless they have regions of their
            own), "fast" (SRAM of the NPU alone), "input" or "output".
        size: Size in bytes.
    """

    number: int
    kind: Kind
    size: int


@dataclass(frozen=True)
class PayloadTensor:
    """An input or output: its region and offset, and the type of its packed elements in C order."""

    name: str
    region: int
    offset: int
    dtype: str
    shape: tuple[int, ...]
    scale: float | None = None
    zero_point: int = 0

    def __post_init__(self) -> None:
        if self.dtype not in _DTYPES:
            raise ValueError(
                f"tensor {self.name!r}: dtype {self.dtype!r} is unknown; known are {', '.join(_DTYPES)}"
            )
        if len(self.shape) > _MAX_RANK:
            raise ValueError(f"tensor {self.name!r}: rank {len(self.shape)} exceeds {_MAX_RANK}")

    @property
    def size(self) -> int:
        """Size in bytes."""
        return math.prod(self.shape) * _BYTES[self.dtype]


def areas_of(data: bytes) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return offset and size of the commands, and of the weights, in the bytes of a payload."""
    at = _HEADER.unpack_from(data, _PREFIX.size)[6:10]
    return at[:2], at[2:]


@dataclass(frozen=True)
class Payload:
    """One region of a model for one accelerator.

    Attributes:
        accelerator: Name of the accelerator, a key of ACCELERATORS.
        config: CONFIG register that the commands were made for.
        arch: Architecture version that the commands were made for.
        regions: Memory areas by ascending number.
        inputs: Inputs in the order of the region's parameters.
        outputs: Outputs in the order of the region's results.
        commands: The command container (COP1 or COP2).
        weights: Weights, scales, tables and constants.
    """

    accelerator: str
    config: int
    arch: int
    regions: tuple[MemoryArea, ...]
    inputs: tuple[PayloadTensor, ...]
    outputs: tuple[PayloadTensor, ...]
    commands: bytes
    weights: bytes

    def __post_init__(self) -> None:
        if self.accelerator not in ACCELERATORS:
            raise PayloadError(
                f"payload is for the unknown accelerator {self.accelerator!r}; known are {', '.join(ACCELERATORS)}"
            )
        if not self.npu.matches_config(self.config):
            raise PayloadError(
                f"payload is for {self.accelerator}, but its configuration {self.config:#x} is not"
            )
        sizes = {r.number: r.size for r in self.regions}
        for t in (*self.inputs, *self.outputs):
            if not 0 <= t.offset <= t.offset + t.size <= sizes.get(t.region, -1):
                raise PayloadError(
                    f"tensor {t.name!r} ({t.size} bytes at {t.offset}) does not fit region {t.region} "
                    f"of {sizes.get(t.region, 0)} bytes"
                )
        for r in self.regions:
            if r.kind == "weights" and r.size != len(self.weights):
                raise PayloadError(
                    f"region {r.number} is {r.size} bytes, the weights are {len(self.weights)}"
                )

    @property
    def npu(self) -> Accelerator:
        """The accelerator that the payload is for."""
        return ACCELERATORS[self.accelerator]

    def region_size(self, kind: Kind) -> int:
        """Return the size in bytes of the regions of a kind."""
        return sum(r.size for r in self.regions if r.kind == kind)

    def to_bytes(self) -> bytes:
        """Serialise the payload; equal payloads give equal bytes."""
        names = bytearray()
        tensors = bytearray()
        for t in (*self.inputs, *self.outputs):
            encoded = t.name.encode()
            shape = (*t.shape, *[0] * (_MAX_RANK - len(t.shape)))
            tensors += _TENSOR.pack(
                *(len(names), len(encoded), t.region, _DTYPES.index(t.dtype), t.offset, t.size),
                *(t.scale or 0.0, t.zero_point, len(t.shape), *shape),
            )
            names += encoded
        tables = (
            b"".join(_REGION.pack(r.number, _KINDS.index(r.kind), r.size) for r in self.regions) + tensors
        )
        names_at = _PREFIX.size + _HEADER.size + len(tables)
        commands_at = _aligned(names_at + len(names))
        weights_at = _aligned(commands_at + len(self.commands))
        header = _HEADER.pack(
            *(self.accelerator.encode(), self.config, self.arch),
            *(len(self.regions), len(self.inputs), len(self.outputs)),
            *(commands_at, len(self.commands), weights_at, len(self.weights), names_at, len(names), 0, 0),
        )
        body = (header + tables + names).ljust(commands_at - _PREFIX.size, b"\0") + self.commands
        body = body.ljust(weights_at - _PREFIX.size, b"\0") + self.weights
        digest = hashlib.sha256(body).digest()
        return _PREFIX.pack(_MAGIC, _VERSION, _PREFIX.size + len(body), digest) + body

    @classmethod
    def from_bytes(cls, data: bytes) -> "Payload":
        """Parse the bytes that `to_bytes` wrote.

        Raises:
            PayloadError: The bytes are no payload, or one of another version, truncated or altered.
        """
        body = _checked_body(data)
        try:
            return cls._parsed(body, data)
        except (IndexError, ValueError, struct.error) as error:
            raise PayloadError(f"payload has its hash, but its tables are malformed: {error}") from None

    @classmethod
    def _parsed(cls, body: bytes, data: bytes) -> "Payload":
        name, config, arch, n_regions, n_inputs, n_outputs, *at = _HEADER.unpack_from(body)
        commands, weights, names = (data[at[i] : at[i] + at[i + 1]] for i in (0, 2, 4))
        position = _HEADER.size
        regions = []
        for number, kind, size in _REGION.iter_unpack(body[position : position + n_regions * _REGION.size]):
            regions.append(MemoryArea(number, _KINDS[kind], size))
        position += n_regions * _REGION.size
        records = body[position : position + (n_inputs + n_outputs) * _TENSOR.size]
        tensors = [_tensor(record, names) for record in _TENSOR.iter_unpack(records)]
        return cls(
            name.rstrip(b"\0").decode(),
            config,
            arch,
            tuple(regions),
            tuple(tensors[:n_inputs]),
            tuple(tensors[n_inputs:]),
            commands,
            weights,
        )


def _checked_body(data: bytes) -> bytes:
    """Check the prefix of a payload, and return the bytes after it."""
    if len(data) < _PREFIX.size + _HEADER.size:
        raise PayloadError(f"payload of {len(data)} bytes is shorter than its header; it is truncated")
    magic, version, size, digest = _PREFIX.unpack_from(data)
    if magic != _MAGIC:
        raise PayloadError(f"not an Ethos-U payload: it begins with {magic!r} instead of {_MAGIC!r}")
    if version != _VERSION:
        raise PayloadError(f"payload format {version} is not {_VERSION}; compile the model again")
    if size != len(data):
        raise PayloadError(f"payload of {len(data)} bytes should have {size}; it is truncated or extended")
    body = data[_PREFIX.size :]
    if hashlib.sha256(body).digest() != digest:
        raise PayloadError("the payload's hash is wrong; the payload was altered")
    return body


def _tensor(record: tuple[int, ...], names: bytes) -> PayloadTensor:
    at, length, region, dtype, offset, _, scale, zero_point, rank, *shape = record
    name = names[at : at + length].decode()
    return PayloadTensor(
        name, region, offset, _DTYPES[dtype], tuple(shape[:rank]), float(scale) or None, zero_point
    )


def _aligned(offset: int) -> int:
    return -(-offset // _ALIGNMENT) * _ALIGNMENT
