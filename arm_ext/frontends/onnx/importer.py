# SPDX-License-Identifier: Apache-2.0
"""Import of ONNX, float and quantised: models are checked, their nodes named and rewritten in QDQ form, and converted.

Upstream's importer sets no spans and reports the first fault it meets. This one names every node, refuses what it
cannot take with all of it at once, and puts each node's name on the calls that came from it.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
import onnx
import tvm
from google.protobuf.message import DecodeError
from onnx import helper
from tvm import relax

from arm_ext.common.errors import ModelError, UsageError
from arm_ext.frontends.common.block_scopes import ending_blocks_on_error
from arm_ext.frontends.common.imported import ImportedModel, TensorSpec
from arm_ext.frontends.common.limits import check_inputs, check_values, size_text
from arm_ext.frontends.common.open_sizes import refuse_open_sizes
from arm_ext.frontends.common.refuse import Shapes, reason_of
from arm_ext.frontends.onnx.check import check_valid, no_tensor, runtime_inputs, set_input_shapes
from arm_ext.frontends.onnx.functions import inline_model_functions
from arm_ext.frontends.onnx.labels import labels_of
from arm_ext.frontends.onnx.limits import check_attributes, check_required
from arm_ext.frontends.onnx.nesting_limits import check_depth, check_nesting, refusing_deep_messages
from arm_ext.frontends.onnx.open_sizes import SourceGraph
from arm_ext.frontends.onnx.program import import_program, name_nodes
from arm_ext.frontends.onnx.random import draw_random
from arm_ext.frontends.onnx.reference import reference
from arm_ext.frontends.onnx.repairs import make_valid
from arm_ext.frontends.onnx.weights import PROTOBUF_BYTES, refuse_heavy, serialise, sha256, with_constants_of


@ending_blocks_on_error()
@refusing_deep_messages()
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
    inline_model_functions(proto)
    origin = SourceGraph.of(proto)
    draw_random(proto, origin)
    # Again after inlining: a call may leave out an input that the function's body requires.
    check_required(proto)
    check_attributes(proto.graph)
    name_nodes(proto.graph)
    source = serialise(proto)
    with _telling_of_empty(partial(input_specs, proto.graph)):
        program = import_program(proto, name, origin)
        _check_empty(program.mod["main"], input_specs(proto.graph))
        check_values(program.mod, program.nodes)
        outputs = _output_specs(proto.graph, program.mod)
    inputs = input_specs(proto.graph)
    check_inputs(inputs)
    source = with_constants_of(program.mod, source)
    return ImportedModel(
        mod=program.mod,
        name=name,
        format="onnx",
        sha256=digest,
        inputs=inputs,
        outputs=outputs,
        nodes=program.nodes,
        quantized=program.quantized,
        reference=partial(reference, source),
    )


def read_onnx(model: str | Path | onnx.ModelProto) -> tuple[onnx.ModelProto, str, str]:
    """Return a repaired copy of the model, its short name, and the SHA-256 of its bytes.

    Raises:
        UsageError: The file is missing or cannot be parsed.
        ModelError: The model has more weights than a package can hold.
    """
    if isinstance(model, onnx.ModelProto):
        name = model.graph.name or "model"
        refuse_heavy(model, name)
        check_nesting(model)
        check_depth(model, name)
        copy = onnx.ModelProto()
        copy.CopyFrom(model)
        make_valid(copy)
        return copy, name, sha256(model)
    path = Path(model)
    if not path.is_file():
        raise UsageError(f"{path}: no such model file")
    if (size := path.stat().st_size) >= PROTOBUF_BYTES:
        raise UsageError(
            f"{path}: not an ONNX model: the file has {size_text(size)}, and protobuf reads less than "
            f"{size_text(PROTOBUF_BYTES)}; a model with more weights keeps them in files beside it"
        )
    data = path.read_bytes()
    if not data:
        raise UsageError(f"{path}: the file is empty; expected an ONNX model")
    try:
        with refusing_deep_messages(str(path)):
            proto = onnx.load_model_from_string(data)
        refuse_heavy(proto, path.name)
        onnx.external_data_helper.load_external_data_for_model(proto, str(path.parent))
    except DecodeError as err:
        raise UsageError(f"{path}: not an ONNX model, or a truncated one ({reason_of(err)})") from err
    except (onnx.checker.ValidationError, OSError) as err:
        raise UsageError(f"{path}: its external weights cannot be read: {err}") from err
    check_nesting(proto)
    make_valid(proto)
    return proto, path.stem, hashlib.sha256(data).hexdigest()


def input_specs(graph: onnx.GraphProto) -> tuple[TensorSpec, ...]:
    """Return the inputs that a caller passes, in order; their shapes are static."""
    return tuple(_spec(value) for value in runtime_inputs(graph))


def _spec(value: onnx.ValueInfoProto) -> TensorSpec:
    # --shape has turned a value of another type into a tensor type without a dtype.
    if not value.type.tensor_type.elem_type:
        raise no_tensor("input", value.name)
    dtype = np.dtype(helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type))
    return TensorSpec(
        value.name, tuple(dim.dim_value for dim in value.type.tensor_type.shape.dim), dtype.name
    )


def _output_specs(graph: onnx.GraphProto, mod: tvm.IRModule) -> tuple[TensorSpec, ...]:
    ty = mod["main"].ret_ty
    fields = list(ty.fields) if isinstance(ty, relax.TupleType) else [ty]
    specs = []
    for value in graph.output:
        if value.type.WhichOneof("value") not in (None, "tensor_type"):
            raise no_tensor("output", value.name)
    for value, field in zip(graph.output, fields, strict=True):
        if not isinstance(field, relax.TensorType) or field.shape is None:
            refuse_open_sizes(mod)
            raise ModelError(
                f"output '{value.name}' has no static shape; give the inputs a --shape that fixes it"
            )
        dims = [int(dim) if isinstance(dim, tvm.tirx.IntImm) else None for dim in field.shape.values]
        if None in dims:
            refuse_open_sizes(mod)
            raise ModelError(f"output '{value.name}' has a shape that depends on the data: {field.shape}")
        shape = tuple(d for d in dims if d is not None)
        specs.append(TensorSpec(value.name, shape, str(field.dtype), labels=labels_of(value)))
    return tuple(specs)


def _check_empty(main: relax.Function, inputs: Sequence[TensorSpec]) -> None:
    """Refuse a model that reads an input without elements: TVM's sums over the input would be uninitialised memory.

    Raises:
        ModelError: Such an input is read.
    """
    used = set(relax.analysis.free_vars(main.body))
    if any(0 in spec.shape and var in used for spec, var in zip(inputs, main.params, strict=False)):
        raise ModelError("an input that is read has no elements; give it at least one")


@contextmanager
def _telling_of_empty(inputs: Callable[[], Sequence[TensorSpec]]) -> Iterator[None]:
    """Open a scope for an import that explains failures from empty inputs, since TVM treats a size of 0 as unknown.

    Raises:
        ModelError: As the import; names the inputs that have no elements, if there are any.
    """
    try:
        yield
    except ModelError as err:
        empty = [spec.describe() for spec in inputs() if 0 in spec.shape]
        if not empty:
            raise
        raise ModelError(
            f"{', '.join(empty)} has no elements, and what follows from it has no known size ({err}). Give it one "
            "element at least, such as a cache's first place that a mask hides, or leave it out of the model"
        ) from err
