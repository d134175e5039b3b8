# SPDX-License-Identifier: Apache-2.0
"""The table of supported StableHLO operators, and the check of a model against it."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxlib.mlir import ir
from tvm import relax
from tvm.ir import TupleGetItem

from arm_ext.common.text import shown
from arm_ext.frontends.common.custom import CustomOp, convert_custom, converter_for
from arm_ext.frontends.common.limits import Site, check_tensor
from arm_ext.frontends.common.refuse import refuse_operators
from arm_ext.frontends.graph import Value
from arm_ext.frontends.stablehlo import (
    complexes,
    control,
    elementwise,
    gather,
    indexing,
    products,
    rearrange,
    reductions,
    sorting,
    windows,
)
from arm_ext.frontends.stablehlo.attributes import ints, tensor_of, word
from arm_ext.frontends.stablehlo.translator import Convert, Translator, functions_of


def _batch_norm(t: Translator, op: Any, operands: list[Value]) -> list[Value]:
    epsilon, (axis,) = float(ir.FloatAttr(op.attributes["epsilon"]).value), ints(op, "feature_index")
    x, scale, offset, mean, variance = (held.full for held in operands)
    norm = relax.op.nn.batch_norm(x, scale, offset, mean, variance, axis, epsilon, training=False)
    return [t.hold(TupleGetItem(t.emit(norm), 0))]


def _nothing(t: Translator, op: Any, operands: list[Value]) -> list[Value]:
    return []


def _custom(t: Translator, op: Any, operands: list[Value]) -> list[Value]:
    """Convert a custom call by a plugin; attributes are strings in MLIR's syntax."""
    attributes = {str(name): str(op.attributes[name]) for name in op.attributes}
    name = name_of(op.location) or str(op.operation.name)
    custom = CustomOp(operator_name(op), name, [held.full for held in operands], attributes, t.builder)
    return [t.hold(value) for value in convert_custom(custom, len(op.results))]


# Operator → its converter, for operators on real values.
_PLAIN: dict[str, Convert] = {
    **control.CONVERTERS,
    **elementwise.CONVERTERS,
    **gather.CONVERTERS,
    **indexing.CONVERTERS,
    **products.CONVERTERS,
    **rearrange.CONVERTERS,
    **reductions.CONVERTERS,
    **sorting.CONVERTERS,
    **windows.CONVERTERS,
    "stablehlo.batch_norm_inference": _batch_norm,
}
CONVERTERS = complexes.with_complexes(_PLAIN)
# Name of the function that a custom_call calls → its converter.
_CALLED: dict[str, Convert] = {
    **{name.replace("chlo.", "mhlo."): f for name, f in CONVERTERS.items() if name.startswith("chlo.")},
    **dict.fromkeys(control.NEUTRAL_CALLS, elementwise.same),
    "mhlo.topk": CONVERTERS["chlo.top_k"],
    # It asserts relations of shapes, which are static here and have been checked.
    "shape_assertion": _nothing,
}
# Operators whose regions are control flow; regions of other operators are functions of scalars.
_CONTROL = ("stablehlo.case", "stablehlo.if", "stablehlo.while")
# Operators with a sliding window; TVM does not support them if their result is empty.
_WINDOWED = ("stablehlo.convolution", "stablehlo.reduce_window")
_NOT_EMPTY = "without 0: its window must be no larger than the padded image"
_ENDS = ("func.return", "stablehlo.return")
_NAME = re.compile(r'"((?:[^"\\]|\\.)*)"(?::(\d+):\d+)?')


def converter_of(op: Any) -> Convert | None:
    """Return the converter of an operator, or None if it is not supported."""
    name = str(op.operation.name)
    if converter_for(operator_name(op)) is not None:
        return _custom
    if name == "stablehlo.composite":
        return next((f for key, f in CONVERTERS.items() if key == word(op, "name")), control.composite)
    if name == "stablehlo.custom_call":
        return _CALLED.get(word(op, "call_target_name"))
    if name.startswith("mhlo."):  # TensorFlow's
        return _CALLED.get(name) or CONVERTERS.get(name.replace("mhlo.", "stablehlo."))
    return CONVERTERS.get(name)


def operator_name(op: Any) -> str:
    """Return an operator's name; for a composite or custom_call, with the name of the function that it calls."""
    name = str(op.operation.name)
    if name == "stablehlo.custom_call":
        return f"{name} @{word(op, 'call_target_name')}"
    if name == "stablehlo.composite":
        return word(op, "name")
    return name


def named_operators(module: Any, entry: Any) -> dict[Any, str]:
    """Return the operators that a function runs, including called functions, in order, with unique names.

    An operator is known by the name that its location has; without one by the operator's and the line in the file.
    """
    functions, seen, taken = functions_of(module), set(), Counter[str]()
    found: dict[Any, str] = {}

    def visit(block: Any) -> None:
        for op in block.operations:
            name = op.operation.name
            if name in _ENDS or name == "stablehlo.constant":
                continue
            if name in _CONTROL:
                for region in op.regions:
                    visit(region.blocks[0])
            callee = "callee" if name == "func.call" else "decomposition"
            inlined = name == "func.call" or converter_of(op) is control.composite
            if inlined and word(op, callee) not in seen:
                seen.add(word(op, callee))
                visit(functions[word(op, callee)].regions[0].blocks[0])
            if name == "func.call":
                continue
            base = name_of(op.location) or name.partition(".")[2]
            taken[base] += 1
            found[op.operation] = base if taken[base] == 1 else f"{base}:{taken[base]}"

    visit(entry.regions[0].blocks[0])
    return found


def name_of(location: Any) -> str:
    """Return the name in a location, or else its line in a file; of several names the first.

    It is read from MLIR's text, in which bytes that are no text are written as digits: asked for a name that holds
    such bytes, the bindings end the process.
    """
    match = _NAME.search(str(location))
    if match is None:
        return ""
    return f"line {match[2]}" if match[2] else shown(match[1])


def _is_taken(ty: Any, operator: str) -> bool:
    tensor = tensor_of(ty)
    return tensor is not None and (not tensor.is_complex or operator in complexes.TAKES_COMPLEX)


def _check_sizes(site: Site, types: Sequence[Any]) -> None:
    """Refuse values larger than memory, which a damaged file may declare."""
    for tensor in map(tensor_of, types):
        if tensor is not None:
            # A size that is not known yet is negative.
            shape = [max(size, 1) for size in tensor.shape]
            check_tensor(site, "a value of it", shape, np.dtype(tensor.stored).itemsize)
            if site.operator in _WINDOWED and 0 in tensor.shape:
                raise site.refuse("the shape of one of its values", list(tensor.shape), _NOT_EMPTY)


_SIZES = (
    "a size of its result follows from an input's value, which only the run knows: export the program for fixed "
    "sizes, or for symbolic ones (jax.export.symbolic_shape), which follow from the inputs' shapes that --shape gives"
)


def refuse_unsupported(operators: Mapping[Any, str]) -> None:
    """Refuse a model for the operators, and types of values, that cannot be compiled.

    Raises:
        ModelError: Lists all of them, or names the first value that is beyond memory.
    """
    missing: dict[str, list[str]] = {}
    for op, name in operators.items():
        types = [value.type for value in (*op.operands, *op.results)]
        _check_sizes(Site(operator_name(op), name), types)
        strange = next((str(ty) for ty in types if not _is_taken(ty, op.operation.name)), None)
        if converter_of(op) is None:
            missing.setdefault(operator_name(op), []).append(name)
        elif strange is not None:
            missing.setdefault(f"{operator_name(op)} of {strange}", []).append(name)
    refuse_operators(missing, dict.fromkeys(filter(_has_sizes_of_data, missing), _SIZES))


def _has_sizes_of_data(operator: str) -> bool:
    """Whether an operator that remains after shape refinement has a size that an input's value decides."""
    return operator.partition(".")[2].startswith(("dynamic_", "real_dynamic_", "set_dimension_size"))


def supported() -> list[str]:
    """Return the names of the operators that can be imported; of a custom_call, the name of the function."""
    return sorted({*CONVERTERS, *_CALLED})
