# SPDX-License-Identifier: Apache-2.0
"""Small ONNX models, right ones and wrong ones, and other files that cases put in their folder."""

import os
import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

Make = Callable[[Path], None]
FLOAT = TensorProto.FLOAT


def relu(
    nodes: Sequence[onnx.NodeProto] | None = None,
    shape: Sequence[int | str] | None = (1, 8),
    outputs: Sequence[str] = ("y",),
    shapes: Sequence[Sequence[int | str] | None] | None = None,
    names: Sequence[str] = ("x",),
    kind: int = FLOAT,
    weights: Sequence[onnx.TensorProto] = (),
    opset: int = 17,
    ir: int = 9,
) -> onnx.ModelProto:
    """Return one Relu from x to y, or these nodes; nothing is checked."""
    nodes = [node("Relu", ["x"], ["y"])] if nodes is None else nodes
    shapes = [shape] * len(outputs) if shapes is None else shapes
    graph = helper.make_graph(
        list(nodes),
        "g",
        [helper.make_tensor_value_info(name, kind, shape) for name in names],
        [helper.make_tensor_value_info(name, kind, size) for name, size in zip(outputs, shapes, strict=True)],
        list(weights),
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir)


def node(
    kind: str, inputs: Sequence[str], outputs: Sequence[str], name: str | None = None, **more: Any
) -> onnx.NodeProto:
    """Return a node that is named like its operator, in small letters."""
    return helper.make_node(
        kind, list(inputs), list(outputs), name=kind.lower() if name is None else name, **more
    )


def constant(name: str, value: object, dtype: str = "int64") -> onnx.TensorProto:
    """Return an initializer."""
    return onnx.numpy_helper.from_array(np.asarray(value, dtype), name)


def saved(model: onnx.ModelProto | Callable[[], onnx.ModelProto], name: str = "m.onnx") -> Make:
    """Return a `make` that writes a model."""
    return lambda folder: _write(
        folder / name, (model if isinstance(model, onnx.ModelProto) else model()).SerializeToString()
    )


def put(name: str, content: bytes | str = b"") -> Make:
    """Return a `make` that writes a file."""
    return lambda folder: _write(folder / name, content.encode() if isinstance(content, str) else content)


def array(name: str, value: object) -> Make:
    """Return a `make` that writes an .npy."""
    return lambda folder: np.save(folder / name, value)


def arrays(name: str, **values: object) -> Make:
    """Return a `make` that writes an .npz."""
    return lambda folder: np.savez(folder / name, **values)  # type: ignore[arg-type]


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def folder(name: str) -> Make:
    """Return a `make` of a folder."""
    return lambda work: (work / name).mkdir(parents=True)


def mode(name: str, bits: int) -> Make:
    """Return a `make` that sets what may be done with a file or folder."""
    return lambda work: (work / name).chmod(bits)


def read_only(name: str) -> Make:
    """Return a `make` of a folder that nothing can be added to."""

    def make(work: Path) -> None:
        folder(name)(work)
        mode(name, 0o555)(work)

    return make


def bytes_replaced(first: Make, name: str, old: bytes, new: bytes) -> Make:
    """Return a `make` that changes bytes of what another one made."""

    def make(work: Path) -> None:
        first(work)
        _write(work / name, (work / name).read_bytes().replace(old, new))

    return make


def link(name: str, to: str) -> Make:
    """Return a `make` of a symbolic link."""
    return lambda work: (work / name).symlink_to(to)


def fifo(name: str) -> Make:
    """Return a `make` of a named pipe that nobody writes to."""
    return lambda work: os.mkfifo(work / name)


def listening(name: str) -> Make:
    """Return a `make` of a UNIX socket."""

    def make(_work: Path) -> None:
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind(name)

    return make


def cut(source: str, name: str, keep: float) -> Make:
    """Return a `make` that copies a part of a shared file."""
    from tests.hostile.case import asset

    def make(work: Path) -> None:
        data = asset(source).read_bytes()
        _write(work / name, data[: int(len(data) * keep)])

    return make


def changed(source: str, name: str, at: float, xor: bytes) -> Make:
    """Return a `make` that copies a shared file and changes bytes at a place of it."""
    from tests.hostile.case import asset

    def make(work: Path) -> None:
        data = bytearray(asset(source).read_bytes())
        start = int(len(data) * at)
        for index, byte in enumerate(xor):
            data[start + index] ^= byte
        _write(work / name, bytes(data))

    return make
