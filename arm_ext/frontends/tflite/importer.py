# SPDX-License-Identifier: Apache-2.0
"""TFLite, float and quantised: checked, named and brought to QDQ form.

TFLite's operators have no names; each is known by that of its first output, up to the first ";": what follows names
the nodes that the converter fused into it.
"""

import contextlib
import hashlib
import io
import struct
import warnings
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import tflite
import tvm
from tvm import relax
from tvm.relax.frontend.tflite.tflite_frontend import OperatorConverter

from arm_ext.errors import ModelError, UsageError
from arm_ext.frontends.imported import ImportedModel, TensorSpec
from arm_ext.frontends.naming import name_calls
from arm_ext.frontends.refuse import not_imported, refuse_operators
from arm_ext.frontends.tflite.converter import QdqConverter
from arm_ext.frontends.tflite.detection import NAME as DETECTION
from arm_ext.frontends.tflite.operators import OWN
from arm_ext.frontends.tflite.reference import reference

IDENTIFIER = b"TFL3"
"""What a TFLite file has after its first four bytes."""

_DTYPES = {
    tflite.TensorType.BOOL: "bool",
    tflite.TensorType.FLOAT16: "float16",
    tflite.TensorType.FLOAT32: "float32",
    tflite.TensorType.INT16: "int16",
    tflite.TensorType.INT32: "int32",
    tflite.TensorType.INT64: "int64",
    tflite.TensorType.INT8: "int8",
    tflite.TensorType.UINT8: "uint8",
}
_OPERATORS: dict[int, str] = {
    value: name for name, value in vars(tflite.BuiltinOperator).items() if isinstance(value, int)
}
_NOT_TAKEN = (
    # They run other subgraphs, of which no use is made here.
    *("CALL", "CALL_ONCE", "IF", "STABLEHLO_COMPOSITE", "STABLEHLO_WHILE", "WHILE"),
    # What they compute depends on the calls before.
    *("ASSIGN_VARIABLE", "LSTM", "RANDOM_STANDARD_NORMAL", "RANDOM_UNIFORM", "READ_VARIABLE", "RNN", "SVDF"),
    *("MULTINOMIAL", "STABLEHLO_RNG_BIT_GENERATOR", "VAR_HANDLE"),
    # TVM has no code for them.
    *("ATAN2", "TAN"),
)
_CUSTOM = f"CUSTOM.{DETECTION}"
# What reading a damaged flatbuffer raises: it has no checksums.
_DAMAGE = (struct.error, IndexError, ValueError, TypeError, OverflowError, AttributeError)


def import_tflite(path: str | Path, shapes: dict[str, tuple[int, ...]] | None = None) -> ImportedModel:
    """Import a TFLite model.

    Args:
        path: The file.
        shapes: Input name → shape; TFLite's shapes are fixed, so only the model's own are taken.

    Raises:
        UsageError: The file is missing or no TFLite model, or a shape is not the model's.
        ModelError: Operators that cannot be compiled: all of them, with names and counts.
    """
    path = Path(path)
    model, digest = _read(path)
    with _intact(path):
        graph = model.Subgraphs(0)
        operators = [graph.Operators(k) for k in range(graph.OperatorsLength())]
        names = _names(graph, operators)
        nodes = {name: operator_name(model, op) for name, op in zip(names, operators, strict=True)}
        inputs, outputs = (
            tuple(_spec(graph.Tensors(k)) for k in numbers)
            for numbers in (graph.InputsAsNumpy(), graph.OutputsAsNumpy())
        )
        quantized = any(_is_quantized(graph.Tensors(k)) for op in operators for k in op.OutputsAsNumpy())
    _check_shapes(shapes or {}, inputs)
    return ImportedModel(
        mod=_convert(model, dict(zip(names, operators, strict=True)), nodes, inputs),
        name=path.stem,
        format="tflite",
        sha256=digest,
        inputs=inputs,
        outputs=outputs,
        nodes=nodes,
        quantized=quantized,
        reference=partial(reference, path.read_bytes()),
    )


def _read(path: Path) -> tuple[Any, str]:
    if not path.is_file():
        raise UsageError(f"{path}: no such model file")
    data = path.read_bytes()
    if data[4:8] != IDENTIFIER:
        raise UsageError(f"{path}: not a TFLite model, which has '{IDENTIFIER.decode()}' at byte 4")
    with _intact(path):
        model = tflite.Model.GetRootAsModel(data, 0)
        if model.SubgraphsLength() < 1:
            raise UsageError(f"{path}: the model holds no graph")
        for k in range(model.BuffersLength()):
            model.Buffers(k).DataAsNumpy()
    return model, hashlib.sha256(data).hexdigest()


@contextlib.contextmanager
def _intact(path: Path) -> Iterator[None]:
    try:
        yield
    except _DAMAGE as err:
        raise UsageError(f"{path}: the TFLite model is damaged or truncated ({err})") from err


def operator_name(model: Any, op: Any) -> str:
    """The operator's name in TFLite's schema; a custom one's own, after "CUSTOM."."""
    code = model.OperatorCodes(op.OpcodeIndex())
    # Numbers that fit in the older, narrower field may stand in either.
    number = max(code.BuiltinCode(), code.DeprecatedBuiltinCode())
    if number == tflite.BuiltinOperator.CUSTOM:
        own: bytes = code.CustomCode() or b"?"
        return f"CUSTOM.{own.decode()}"
    return _OPERATORS.get(number, f"operator {number}")


def _names(graph: Any, operators: list[Any]) -> list[str]:
    taken: Counter[str] = Counter()
    names = []
    for op in operators:
        base = _tensor_name(graph.Tensors(op.Outputs(0))).split(";")[0]
        taken[base] += 1
        names.append(base if taken[base] == 1 else f"{base}:{taken[base]}")
    return names


def _tensor_name(tensor: Any) -> str:
    name: bytes = tensor.Name() or b""
    return name.decode() or "tensor"


def _spec(tensor: Any) -> TensorSpec:
    name = _tensor_name(tensor)
    if tensor.Type() not in _DTYPES:
        raise ModelError(
            f"'{name}' is of TFLite's type {tensor.Type()}; {', '.join(_DTYPES.values())} are taken"
        )
    shape = tensor.ShapeAsNumpy() if tensor.ShapeLength() else ()
    return TensorSpec(name, tuple(int(size) for size in shape), _DTYPES[tensor.Type()])


def _is_quantized(tensor: Any) -> bool:
    params = tensor.Quantization()
    return params is not None and params.ScaleLength() > 0


def _check_shapes(shapes: dict[str, tuple[int, ...]], inputs: tuple[TensorSpec, ...]) -> None:
    fixed = {spec.name: spec.shape for spec in inputs}
    for name, shape in shapes.items():
        if name not in fixed:
            raise UsageError(f"--shape {name}: the model has no such input; it has {', '.join(fixed)}")
        if shape != fixed[name]:
            raise UsageError(
                f"--shape {name}: {list(shape)} is not the model's {list(fixed[name])}, "
                "and a TFLite model's shapes are fixed when it is converted"
            )


def _convert(
    model: Any, operators: dict[str, Any], nodes: dict[str, str], inputs: tuple[TensorSpec, ...]
) -> tvm.IRModule:
    graph = model.Subgraphs(0)
    builder = relax.BlockBuilder()
    converter = QdqConverter(model, builder)
    _check_supported(nodes, converter)
    params = [relax.Var(spec.name, relax.TensorType(spec.shape, spec.dtype)) for spec in inputs]
    converter.values.update(zip((int(k) for k in graph.InputsAsNumpy()), params, strict=True))
    try:
        # Upstream prints; stdout belongs to our result.
        with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with builder.function("main", params):
                with builder.dataflow():
                    for name, op in operators.items():
                        converter.convert(op, name)
                    results = [converter.value(int(k)) for k in graph.OutputsAsNumpy()]
                    result = builder.emit_output(results[0] if len(results) == 1 else relax.Tuple(results))
                builder.emit_func_output(result)
    except Exception as err:
        raise not_imported(converter.node, nodes, err) from err
    return name_calls(builder.get(), converter.last_binding)


def _check_supported(nodes: dict[str, str], converter: OperatorConverter) -> None:
    missing: dict[str, list[str]] = {}
    for name, operator in nodes.items():
        known = operator == _CUSTOM or operator in OWN or operator in converter.convert_map
        if not known or operator in _NOT_TAKEN:
            missing.setdefault(operator, []).append(name)
    refuse_operators(missing)
