# SPDX-License-Identifier: Apache-2.0
"""Damaged model files: bytes turned over, cut, doubled; and files that are whole, but say what no model says."""

import io
import re
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from ai_edge_litert import schema_py_generated as schema
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from onnx import TensorProto, helper, numpy_helper

from tests.arm_ext.frontends.tflite.builder import TfliteBuilder, pack

FORMATS = ("onnx", "tflite", "pt2", "stablehlo")

# Sizes, indices and enumerations that readers may stumble on.
_ODD = (-(2**63), -(2**31), -129, -2, -1, 0, 1, 2, 3, 7, 127, 255, 2**16, 2**31 - 1, 2**40, 2**63 - 1)
_EDITS = 3


def damaged(data: bytes, kind: str, rng: np.random.Generator) -> bytes:
    """Return the file with one to three faults, of bytes or of structure."""
    structural: dict[str, Callable[[bytes, np.random.Generator], bytes]] = {
        "onnx": _edit_onnx,
        "tflite": _edit_tflite,
        "pt2": _edit_archive,
        "stablehlo": _edit_text,
    }
    if rng.random() < 0.5:
        return structural[kind](data, rng)
    for _ in range(rng.integers(1, _EDITS + 1)):
        data = _edit_bytes(data, rng)
    return data


def _edit_bytes(data: bytes, rng: np.random.Generator) -> bytes:
    if not data:
        return data
    at, length = int(rng.integers(len(data))), int(rng.integers(1, 33))
    there = data[at : at + length]
    match rng.integers(6):
        case 0:
            new = bytes([data[at] ^ 1 << int(rng.integers(8))]) + there[1:]
        case 1:
            new = rng.bytes(len(there))
        case 2:
            new = b""
        case 3:
            new = there * 2
        case 4:
            new = int(rng.choice(_ODD)).to_bytes(8, "little", signed=True)[: len(there)] + there[8:]
        case _:
            return data[:at]
    return data[:at] + new + data[at + length :]


def _edit_onnx(data: bytes, rng: np.random.Generator) -> bytes:
    model = onnx.load_model_from_string(data)
    for _ in range(rng.integers(1, _EDITS + 1)):
        places = list(_places(model))
        message, field = places[rng.integers(len(places))]
        _edit_field(message, field, rng)
    return model.SerializeToString()


def _places(message: Message) -> Iterator[tuple[Message, FieldDescriptor]]:
    for field, value in message.ListFields():
        yield message, field
        if field.message_type is not None:
            for part in value if field.is_repeated else [value]:
                yield from _places(part)


def _edit_field(message: Message, field: FieldDescriptor, rng: np.random.Generator) -> None:
    value = getattr(message, field.name)
    if rng.random() < 0.3 or (field.message_type is not None and not field.is_repeated):
        message.ClearField(field.name)
    elif field.is_repeated and len(value):
        at = int(rng.integers(len(value)))
        if rng.random() < 0.4:
            del value[at]
        elif field.message_type is not None:
            value.add().CopyFrom(value[at])
        else:
            value[at] = _other(value[at], field, rng)
    elif not field.is_repeated:
        setattr(message, field.name, _other(value, field, rng))


def _other(value: Any, field: FieldDescriptor, rng: np.random.Generator) -> Any:
    if isinstance(value, str):
        return str(rng.choice(["", "x", "Conv", "Reshape", "float", value * 2, value[:-1]]))
    if isinstance(value, bytes):
        return _edit_bytes(value, rng)
    if isinstance(value, float):
        return float(rng.choice([0.0, -1.0, np.inf, np.nan, 1e30]))
    if field.enum_type is not None:
        return int(rng.choice(list(field.enum_type.values_by_number)))
    limit = 2**31 if field.cpp_type == FieldDescriptor.CPPTYPE_INT32 else 2**63
    return int(rng.choice([odd for odd in _ODD if -limit <= odd < limit]))


def _edit_tflite(data: bytes, rng: np.random.Generator) -> bytes:
    model = schema.ModelT.InitFromObj(schema.Model.GetRootAsModel(data, 0))
    (graph,) = model.subgraphs
    for _ in range(rng.integers(1, _EDITS + 1)):
        owner = rng.choice([*graph.operators, *graph.tensors, *model.operatorCodes, graph])
        options = getattr(owner, "builtinOptions", None)
        quantization = getattr(owner, "quantization", None)
        owner = rng.choice([part for part in (owner, options, quantization) if part is not None])
        names = [n for n, v in vars(owner).items() if isinstance(v, int | list | np.ndarray)]
        if names:
            name = str(rng.choice(names))
            setattr(owner, name, _other_numbers(getattr(owner, name), rng))
    try:
        return pack(model)
    except Exception:  # a number that the field has no room for
        return _edit_bytes(data, rng)


def _other_numbers(value: Any, rng: np.random.Generator) -> Any:
    odd = int(rng.choice([n for n in _ODD if -(2**31) <= n < 2**31]))
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return odd
    numbers = list(value)
    if not numbers or not isinstance(numbers[0], int | float | np.number):
        return numbers[:-1]
    if rng.random() < 0.5:
        return numbers[:-1] if rng.random() < 0.5 else [*numbers, numbers[-1]]
    numbers[rng.integers(len(numbers))] = odd
    return numbers


def _edit_archive(data: bytes, rng: np.random.Generator) -> bytes:
    """Damage one file of an archive, or leave it out; the archive itself is whole."""
    target = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(target, "w") as new:
        names = old.namelist()
        chosen, kept = str(rng.choice(names)), rng.random() < 0.9
        for name in names:
            content = old.read(name)
            if name == chosen and kept:
                content = _edit_bytes(content, rng)
            if name != chosen or kept:
                new.writestr(name, content)
    return target.getvalue()


def _edit_text(data: bytes, rng: np.random.Generator) -> bytes:
    """Change a word of MLIR's text at one place or everywhere, or a line; its bytecode has neither."""
    if not data.isascii():
        return _edit_bytes(data, rng)
    words = list(re.finditer(rb"-?\d+|[%@#!]?[\w.]+", data))
    word, other = (words[k] for k in rng.integers(len(words), size=2))
    new = other[0] if rng.random() < 0.7 else b"%d" % rng.choice(_ODD)
    match rng.integers(3):
        case 0:
            return data[: word.start()] + new + data[word.end() :]
        case 1:
            return re.sub(rb"(?<![\w.%%@#!-])%s(?![\w.])" % re.escape(word[0]), lambda _: new, data)
        case _:
            lines = data.split(b"\n")
            at = int(rng.integers(len(lines)))
            lines[at : at + 1] = [[], [lines[at]] * 2, [rng.choice(lines)]][rng.integers(3)]
            return b"\n".join(lines)


def whole_files(kind: str, folder: Path | None = None) -> list[bytes]:
    """Return small whole models of a format; for TFLite with those that stand in `folder`."""
    if kind == "onnx":
        return [_onnx_model(quantized).SerializeToString() for quantized in (False, True)]
    if kind == "tflite":
        found = sorted(folder.glob("*.tflite")) if folder is not None else []
        return [_tflite_model(), *(path.read_bytes() for path in found)]
    if kind == "stablehlo":
        from tests.fuzz.stablehlo_files import stablehlo_files

        return stablehlo_files()
    return [_exported_program()]


def _onnx_model(quantized: bool) -> onnx.ModelProto:
    rng = np.random.default_rng(1)
    weights = {
        "w": (rng.integers(-127, 128, (4, 3, 3, 3)).astype(np.int8) if quantized
              else rng.standard_normal((4, 3, 3, 3)).astype(np.float32)),
        "shape": np.array([1, -1], np.int64),
        "fc": rng.standard_normal((64, 5)).astype(np.float32),
        "scale": np.array(0.1, np.float32),
        "zero": np.array(3, np.int8),
        "none": np.array(0, np.int8),
    }  # fmt: skip
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1] * 4),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("MaxPool", ["r"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Reshape", ["p", "shape"], ["f"]),
        helper.make_node("Gemm", ["f", "fc"], ["g"], alpha=0.5),
        helper.make_node("Softmax", ["g"], ["y"], axis=-1),
    ]
    if quantized:
        nodes[0] = helper.make_node(
            "QLinearConv", ["q", "scale", "zero", "w", "scale", "none", "scale", "zero"], ["d"], pads=[1] * 4
        )
        nodes.insert(0, helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["q"]))
        nodes.insert(2, helper.make_node("DequantizeLinear", ["d", "scale", "zero"], ["c"]))
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "g",
        [value("x", TensorProto.FLOAT, [1, 3, 8, 8])],
        [value("y", TensorProto.FLOAT, [1, 5])],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _tflite_model() -> bytes:
    m = TfliteBuilder()
    x, h = m.take("int8", 1, 8, 8, 3, scale=0.1, zero=-7), m.tensor("int8", 1, 8, 8, 7, scale=2.0, zero=5)
    m.op("CONV_2D", [x, m.weight(7, 3, 3, 3, scale=0.1), m.bias(7)], [h], strideH=1, strideW=1)
    r, y = m.tensor("int8", 1, 448, scale=2.0, zero=5), m.tensor("int8", 1, 9, scale=9.0)
    m.op("RESHAPE", [h, m.hold([1, 448])], [r], newShape=[1, 448])
    m.op("FULLY_CONNECTED", [r, m.weight(9, 448, scale=0.1), m.bias(9)], [y])
    return m.build()


def _exported_program() -> bytes:
    import torch

    torch.manual_seed(0)
    layers = (torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(144, 5))
    program = torch.export.export(torch.nn.Sequential(*layers).eval(), (torch.randn(1, 3, 8, 8),))
    target = io.BytesIO()
    torch.export.save(program, target)
    return target.getvalue()
