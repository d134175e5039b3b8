# SPDX-License-Identifier: Apache-2.0
"""Import of TFLite, float and quantised: models are checked, their operators named and converted to QDQ form.

TFLite's operators have no names; each is known by that of its first output, up to the first ";": what follows names
the nodes that the converter fused into it.
"""

import contextlib
import hashlib
import io
import struct
import warnings
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy.typing as npt
import tflite
import tvm
from tvm import relax

from arm_ext.common.errors import UsageError
from arm_ext.frontends.common.imported import ImportedModel, TensorSpec
from arm_ext.frontends.common.limits import check_inputs, check_tensor, check_values
from arm_ext.frontends.common.naming import name_calls
from arm_ext.frontends.common.refuse import not_imported
from arm_ext.frontends.tflite.access import Whole
from arm_ext.frontends.tflite.codes import operator_name
from arm_ext.frontends.tflite.converter import QdqConverter
from arm_ext.frontends.tflite.file import IDENTIFIER
from arm_ext.frontends.tflite.graphs import check_nesting
from arm_ext.frontends.tflite.limits import check_references, check_scales
from arm_ext.frontends.tflite.reference import reference, unreachable
from arm_ext.frontends.tflite.resources import Resource, initial_values, resources_of
from arm_ext.frontends.tflite.specs import as_computed, check_shapes, is_quantized, spec_of
from arm_ext.frontends.tflite.supported import check_supported, named_operators
from arm_ext.frontends.tflite.tensors import constant, signature_of
from arm_ext.frontends.tflite.variables import Variable, numbers_of, variables_of
from relay_passes.programs.merge_modules import MAIN

# Exceptions that reading a damaged flatbuffer raises; flatbuffers have no checksums.
_DAMAGE = (struct.error, IndexError, ValueError, TypeError, OverflowError, AttributeError)


def import_tflite(
    path: str | Path, shapes: dict[str, tuple[int, ...]] | None = None, *, own_integers: bool = True
) -> ImportedModel:
    """Import a TFLite model.

    Args:
        path: The file.
        shapes: Input name → shape, where the file leaves sizes open; it has a default for these, mostly 1.
        own_integers: Whether functions of 16 bits are computed as LiteRT does, and costly branches run alone; else
            the first are left in QDQ form, and all branches computed, for an NPU.

    Raises:
        UsageError: The file is missing or no TFLite model, or a shape is not the model's.
        ModelError: Operators that cannot be compiled: all of them, with names and counts.
    """
    path = Path(path)
    model, digest = _read(path)
    with _intact(path):
        graph = model.Subgraphs(0)
        check_references(model)
        check_nesting(model, operator_name)
        operators = named_operators(model)
        nodes = {name: operator_name(model, op) for ops in operators.values() for name, op in ops.items()}
        whole = Whole(model, operators, own_integers=own_integers)
        for number in operators:
            check_scales(model.Subgraphs(number))
        check_supported(nodes, QdqConverter(whole, relax.BlockBuilder()).convert_map)
        inputs, outputs = (
            tuple(spec_of(graph.Tensors(k)) for k in numbers)
            for numbers in (graph.InputsAsNumpy(), graph.OutputsAsNumpy())
        )
        taken = {spec.name for spec in (*inputs, *outputs)}
        variables = variables_of(graph, [spec_of(graph.Tensors(k)) for k in numbers_of(graph)], taken)
        initial = _initial(model, operators, nodes)
        whole.variables.update((name, constant(value)) for name, value in initial.items())
        resources = resources_of(model, operators, initial, taken)
        quantized = any(
            is_quantized(model.Subgraphs(number).Tensors(op.Outputs(k)))
            for number, ops in operators.items()
            for op in ops.values()
            for k in range(op.OutputsLength())
        )
        signatures = {
            s.name: signature_of(graph.Tensors(k)) for s, k in zip(inputs, graph.InputsAsNumpy(), strict=True)
        }
    check_shapes(shapes or {}, inputs, signatures)
    sized = tuple(replace(spec, shape=(shapes or {}).get(spec.name, spec.shape)) for spec in inputs)
    check_inputs(sized)
    for spec in sized:
        check_tensor("the model", f"input '{spec.name}'", spec.shape, 1)
    mod = _convert(whole, nodes, sized, variables, resources)
    check_values(mod, nodes)
    states: tuple[Variable | Resource, ...] = (*variables, *resources)
    return ImportedModel(
        mod=mod,
        name=path.stem,
        format="tflite",
        sha256=digest,
        inputs=(*sized, *(kept.spec for kept in states)),
        outputs=(*as_computed(mod, outputs), *(kept.next for kept in states)),
        nodes=nodes,
        quantized=quantized,
        reference=unreachable
        if resources
        else partial(reference, path.read_bytes(), [variable.number for variable in variables]),
        states=tuple(kept.state for kept in states),
        for_npu=partial(import_tflite, path, shapes, own_integers=False) if own_integers else None,
    )


def _read(path: Path) -> tuple[Any, str]:
    if not path.is_file():
        raise UsageError(f"{path}: no such model file")
    with path.open("rb") as file:
        start = file.read(8)
    if start[4:] != IDENTIFIER:
        raise UsageError(
            f"{path}: not a TFLite model: it lacks the identifier '{IDENTIFIER.decode()}' at byte 4"
        )
    data = path.read_bytes()
    with _intact(path):
        model = tflite.Model.GetRootAsModel(data, 0)
        if model.SubgraphsLength() < 1:
            raise UsageError(f"{path}: the model has no graph")
        for k in range(model.BuffersLength()):
            model.Buffers(k).DataAsNumpy()
    return model, hashlib.sha256(data).hexdigest()


@contextlib.contextmanager
def _intact(path: Path) -> Iterator[None]:
    try:
        yield
    except _DAMAGE as err:
        why = "it refers to what lies outside of the file" if isinstance(err, struct.error) else err
        raise UsageError(f"{path}: the TFLite model is damaged or truncated ({why})") from err


def _initial(
    model: Any, operators: dict[int, dict[str, Any]], nodes: dict[str, str]
) -> dict[str, npt.NDArray[Any]]:
    whole = Whole(model, operators)
    try:
        return initial_values(QdqConverter(whole, relax.BlockBuilder()), operators)
    except Exception as err:
        raise not_imported(whole.node, nodes, err) from err


def _convert(
    whole: Whole,
    nodes: dict[str, str],
    inputs: tuple[TensorSpec, ...],
    variables: tuple[Variable, ...],
    resources: tuple[Resource, ...],
) -> tvm.IRModule:
    builder = relax.BlockBuilder()
    converter = QdqConverter(whole, builder)
    taken = [*inputs, *(variable.spec for variable in variables), *(resource.spec for resource in resources)]
    params = [relax.Var(spec.name, relax.TensorType(spec.shape, spec.dtype)) for spec in taken]
    kept, states = params[len(inputs) :], [variable.number for variable in variables]
    converter.values.update(zip(states, kept, strict=False))
    whole.variables.update(zip((r.name for r in resources), kept[len(states) :], strict=True))
    try:
        # Upstream prints to stdout, which is reserved for results.
        with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with builder.function("main", params):
                with builder.dataflow():
                    results = converter.results(params[: len(inputs)])
                    results += [converter.value(number) for number in states]
                    results += [whole.variables[resource.name] for resource in resources]
                    result = builder.emit_output(results[0] if len(results) == 1 else relax.Tuple(results))
                builder.emit_func_output(result)
    except UsageError:  # raised by a plugin's converter
        raise
    except Exception as err:
        raise not_imported(whole.node, nodes, err) from err
    mod = builder.get()
    mod[MAIN] = name_calls(mod[MAIN], whole.last_binding)
    whole.program.add(MAIN, mod)
    return whole.program.module()
