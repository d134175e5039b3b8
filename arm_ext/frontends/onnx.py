# SPDX-License-Identifier: Apache-2.0
"""ONNX, fp32 and quantised: checked, named, brought to QDQ form and handed to TVM's importer.

Upstream's importer sets no spans and reports the first fault it meets. This one names every node, refuses what it
cannot take with all of it at once, and puts each node's name on the calls that came from it.
"""

import contextlib
import hashlib
import io
import warnings
from collections import Counter
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import tvm
from google.protobuf.message import DecodeError
from onnx import helper
from tvm import relax
from tvm.relax.frontend.onnx import onnx_frontend

from arm_ext.errors import ModelError, UsageError
from arm_ext.frontends.imported import ImportedModel, TensorSpec
from arm_ext.frontends.naming import name_calls
from arm_ext.frontends.onnx_check import check_supported, check_valid, runtime_inputs, set_input_shapes
from arm_ext.frontends.onnx_expansion import opset_of
from arm_ext.frontends.onnx_functions import inline_model_functions
from arm_ext.frontends.onnx_int4 import widen_int4
from arm_ext.frontends.onnx_operators import expand_operators
from arm_ext.frontends.onnx_quantized import expand_quantized
from arm_ext.frontends.onnx_reference import reference
from arm_ext.frontends.refuse import Shapes, not_imported


def import_onnx(model: str | Path | onnx.ModelProto, shapes: Shapes | None = None) -> ImportedModel:
    """Import an ONNX model.

    Args:
        model: A path, or a loaded model.
        shapes: Input name → static shape, needed for each input with a dynamic dimension.

    Raises:
        UsageError: The file is missing or is not a valid ONNX model; a shape is missing or does not fit.
        ModelError: Operators that cannot be compiled: all of them, with node names and counts; or tensors of 4 bits
            that are no constants.
    """
    proto, name, digest = read_onnx(model)
    check_valid(proto, name)
    set_input_shapes(proto, shapes or {})
    proto = inline_model_functions(proto)
    name_nodes(proto.graph)
    source = proto.SerializeToString()
    widen_int4(proto)
    nodes = {node.name: node.op_type for node in proto.graph.node}
    expansion = expand_quantized(proto)
    check_supported(proto, expansion.refused)
    proto, sources, refused = expand_operators(proto, name)
    sources = {new: expansion.sources.get(old, old) for new, old in sources.items()}
    check_supported(proto, refused, sources)
    mod = _convert(proto, expansion.sources | sources, nodes)
    inputs = input_specs(proto.graph)
    return ImportedModel(
        mod=mod,
        name=name,
        format="onnx",
        sha256=digest,
        inputs=inputs,
        outputs=_output_specs(proto.graph, mod),
        nodes=nodes,
        quantized=any(node.op_type == "QuantizeLinear" for node in proto.graph.node),
        reference=partial(reference, source),
    )


def read_onnx(model: str | Path | onnx.ModelProto) -> tuple[onnx.ModelProto, str, str]:
    """Return the model (a copy, if it is one already), its short name, and the sha256 of its bytes.

    Raises:
        UsageError: The file is missing or cannot be parsed.
    """
    if isinstance(model, onnx.ModelProto):
        copy = onnx.ModelProto()
        copy.CopyFrom(model)
        return copy, model.graph.name or "model", hashlib.sha256(model.SerializeToString()).hexdigest()
    path = Path(model)
    if not path.is_file():
        raise UsageError(f"{path}: no such model file")
    data = path.read_bytes()
    if not data:
        raise UsageError(f"{path}: the file is empty; expected an ONNX model")
    try:
        proto = onnx.load_model_from_string(data)
        onnx.external_data_helper.load_external_data_for_model(proto, str(path.parent))
    except DecodeError as err:
        raise UsageError(f"{path}: not an ONNX model, or a truncated one ({err})") from err
    except (onnx.checker.ValidationError, OSError) as err:
        raise UsageError(f"{path}: its external weights cannot be read: {err}") from err
    return proto, path.stem, hashlib.sha256(data).hexdigest()


def name_nodes(graph: onnx.GraphProto) -> None:
    """Give every node a unique name: its own, else its first output's, else its operator's."""
    taken: Counter[str] = Counter()
    for node in graph.node:
        base = node.name or next((out for out in node.output if out), node.op_type)
        taken[base] += 1
        node.name = base if taken[base] == 1 else f"{base}:{taken[base]}"


class _NamingImporter(onnx_frontend.ONNXGraphImporter):  # type: ignore[misc]
    """Upstream's importer, which also notes where each source node's bindings end."""

    def __init__(self, sources: Mapping[str, str]) -> None:
        super().__init__(shape_dict={}, dtype_dict="float32")
        self.sources = sources
        self.last_binding: dict[relax.Var, str] = {}
        self.node = ""

    def _convert_operator(self, op_name: str, inputs: Any, attrs: dict[str, Any], opset: int) -> relax.Expr:
        name = attrs["tvm_custom"]["name"]
        self.node = self.sources.get(name, name)
        result = super()._convert_operator(op_name, inputs, attrs, opset)
        # A converter may return an unbound call, which would be bound among the bindings of its consumer.
        if isinstance(result, relax.Call) and not isinstance(result.ty, relax.ShapeType):
            result = self.bb.emit(result)
        for value in result.fields if isinstance(result, relax.Tuple) else [result]:
            # A node that passes a value through (Identity) leaves it its first name.
            if isinstance(value, relax.Var):
                self.last_binding.setdefault(value, self.node)
        return result


def _convert(
    proto: onnx.ModelProto, sources: Mapping[str, str], operators: Mapping[str, str]
) -> tvm.IRModule:
    """Import, given each expanded node's source, and the sources' operators."""
    importer = _NamingImporter(sources)
    try:
        # Upstream prints the failing node to stdout, which belongs to our result, and warns of renamed inputs.
        with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            mod = importer.from_onnx(proto.graph, opset_of(proto))
    except Exception as err:
        raise not_imported(importer.node, operators, err) from err
    return name_calls(mod, importer.last_binding)


def input_specs(graph: onnx.GraphProto) -> tuple[TensorSpec, ...]:
    """Return the inputs that a caller passes, in order; their shapes are static."""
    return tuple(_spec(value) for value in runtime_inputs(graph))


def _spec(value: onnx.ValueInfoProto) -> TensorSpec:
    dtype = np.dtype(helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type))
    return TensorSpec(
        value.name, tuple(dim.dim_value for dim in value.type.tensor_type.shape.dim), dtype.name
    )


def _output_specs(graph: onnx.GraphProto, mod: tvm.IRModule) -> tuple[TensorSpec, ...]:
    ty = mod["main"].ret_ty
    fields = list(ty.fields) if isinstance(ty, relax.TupleType) else [ty]
    specs = []
    for value, field in zip(graph.output, fields, strict=True):
        if not isinstance(field, relax.TensorType) or field.shape is None:
            raise ModelError(
                f"output '{value.name}' has no static shape; give the inputs a --shape that fixes it"
            )
        dims = [int(dim) if isinstance(dim, tvm.tirx.IntImm) else None for dim in field.shape.values]
        if None in dims:
            raise ModelError(f"output '{value.name}' has a shape that depends on the data: {field.shape}")
        specs.append(TensorSpec(value.name, tuple(d for d in dims if d is not None), str(field.dtype)))
    return tuple(specs)
