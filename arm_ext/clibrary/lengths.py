# SPDX-License-Identifier: Apache-2.0
"""Sizes that follow from a length, which is known at run time: in C, and what they are at most.

[1, (n - 1) // 2 + 1, 8] of float32    →    32 * (quotient(length - 1, 2) + 1)
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from tvm import relax, tirx
from tvm.ir import Expr, Var
from tvm.ir.prim import expr as prim

from arm_ext.clibrary.text import comment, render
from arm_ext.errors import ModelError
from arm_ext.frontends.common.imported import ImportedModel, TensorSpec
from relay_passes.ir.sizes import greatest
from relay_passes.lengths.fix_length import dims_of

VARIABLE = "length"
"""The length in C: an int64_t."""

_OPERATORS = {
    prim.Add: "({} + {})",
    prim.Sub: "({} - {})",
    prim.Mul: "{} * {}",
    prim.FloorDiv: "quotient({}, {})",
}


@dataclass(frozen=True)
class Length:
    """A length that a kernel is given.

    Attributes:
        text: In C.
        most: The greatest that it is given.
    """

    text: str
    most: int


def is_open(dims: Sequence[Expr]) -> bool:
    """Whether a size among them is known at run time."""
    return any(not isinstance(dim, tirx.IntImm) for dim in dims)


def c_text(size: Expr, length: str = VARIABLE) -> str:
    """Return a size in C.

    Args:
        size: An expression of one variable.
        length: The variable's value, in C.

    Raises:
        ModelError: It is no sum, product or quotient.
    """
    if isinstance(size, tirx.IntImm):
        return str(int(size))
    if isinstance(size, Var):
        return length
    if isinstance(size, tirx.Cast):
        return c_text(size.value, length)
    if type(size) not in _OPERATORS:
        raise ModelError(
            f"a C library has no size of {size}, which is known at run time; list sizes in place of a bound"
        )
    return _OPERATORS[type(size)].format(c_text(size.a, length), c_text(size.b, length))


def product_text(dims: Sequence[Expr], factor: int) -> str:
    """Return the product of sizes and a number in C."""
    for dim in dims:
        factor *= int(dim) if isinstance(dim, tirx.IntImm) else 1
    texts = [c_text(dim) for dim in dims if not isinstance(dim, tirx.IntImm)]
    return " * ".join([str(factor), *texts])


def most(dims: Sequence[Expr], largest: int) -> int:
    """Return the greatest product of sizes.

    Raises:
        ModelError: One is known at run time and has no bound, or is negative for some length.
    """
    if largest == 0 and is_open(dims):
        sizes = ", ".join(map(str, dims))
        raise ModelError(
            f"a C library has no values of [{sizes}], whose size is known at run time; compile a package"
        )
    try:
        return greatest(dims, largest)
    except ValueError as err:
        raise ModelError(f"{err}; list the sizes that occur in place of a bound") from err


@dataclass(frozen=True)
class OpenLength:
    """The length that a library's functions take.

    Attributes:
        name: In --shape.
        largest: The greatest.
        tested: That of the self-test.
        inputs: Sizes of each input.
        outputs: The same of outputs.
    """

    name: str
    largest: int
    tested: int
    inputs: tuple[tuple[Expr, ...], ...]
    outputs: tuple[tuple[Expr, ...], ...]

    @staticmethod
    def of(main: relax.Function, name: str, largest: int, model: ImportedModel) -> "OpenLength":
        """Return the length that a planned function takes.

        Args:
            main: The function.
            name: Of the length.
            largest: The greatest.
            model: As large as the self-test's inputs.
        """
        result = main.ret_ty
        outputs = list(result.fields) if isinstance(result, relax.TupleType) else [result]
        inputs = [dims_of(param.ty) for param in main.params]
        tested = next(
            size
            for spec, dims in zip(model.inputs, inputs, strict=True)
            for size, dim in zip(spec.shape, dims, strict=True)
            if isinstance(dim, Var)
        )
        given = tuple(tuple(dims_of(ty)) for ty in outputs)
        return OpenLength(name, largest, tested, tuple(map(tuple, inputs)), given)

    def at_largest(self, model: ImportedModel) -> ImportedModel:
        """Return the model with inputs and outputs as large as they can be."""
        return replace(
            model,
            inputs=self._grown(model.inputs, self.inputs),
            outputs=self._grown(model.outputs, self.outputs),
        )

    def _grown(self, specs: Sequence[TensorSpec], shapes: Sequence[Sequence[Expr]]) -> tuple[TensorSpec, ...]:
        return tuple(
            replace(spec, shape=tuple(most([dim], self.largest) for dim in dims))
            for spec, dims in zip(specs, shapes, strict=True)
        )

    @property
    def first_open(self) -> int:
        """Index of the first input that has the length."""
        return next(index for index, dims in enumerate(self.inputs) if is_open(dims))

    def values(self, prefix: str, model: ImportedModel) -> dict[str, str]:
        """Return what is different in all sources.

        Args:
            prefix: Of the library's macros.
            model: As large as it can be.
        """
        names = {"name": prefix.lower(), "NAME": prefix}
        limit = f"{prefix}_LENGTH_MAX"
        wrong = f"{VARIABLE} == 0 || {VARIABLE} > {limit}"
        ends = (("input", model.inputs, self.inputs), ("output", model.outputs, self.outputs))
        needs = "".join(
            render("open_need.c", {"kind": kind, "open_cases": _need_cases(specs, shapes)})
            for kind, specs, shapes in ends
        )
        tensors = "".join(
            render(
                "open_tensor.c",
                {
                    **names,
                    "kind": kind,
                    "KIND": kind.upper(),
                    "open": VARIABLE,
                    "open_wrong": wrong,
                    "open_cases": _size_cases(shapes, max([1, *map(len, (*self.inputs, *self.outputs))])),
                },
            )
            for kind, _, shapes in ends
        )
        return {
            "shape_parameter": f"size_t {VARIABLE}, ",
            "shape_pass": f"{VARIABLE}, ",
            "shape_text": f" `{VARIABLE}` is {comment(self.name)} of the shapes\n * above, and buffers "
            "have the sizes that follow from it.",
            "open_limit": f"/* The greatest {comment(self.name)}; the sizes below are those for it. */\n"
            f"#define {limit} ((size_t){self.largest})\n\n",
            "open_parameter": f"int64_t {VARIABLE},",
            "open_pass": f"(int64_t){VARIABLE}, ",
            "open_check": render("length_check.c", {**names, "open_wrong": wrong}),
            "open_needs": _with_quotient(needs),
            "input_needed": _needed("input"),
            "output_needed": _needed("output"),
            "compute_parameter": f"int64_t {VARIABLE}, ",
            "compute_pass": f"(int64_t){VARIABLE}, ",
            "length_used": f"    (void){VARIABLE};\n",
            "part_length": f"    int64_t {VARIABLE};\n",
            "tensor_functions": _with_quotient(tensors),
            "tensor_text": " It is written to `tensor`, for a length.",
            "tensor_parameter": f", {prefix.lower()}_tensor *tensor",
            "tensor_pass": ", &tensor",
            "tensor_declaration": f"    {prefix.lower()}_tensor tensor;\n",
            "hpp_shape": f"std::size_t {VARIABLE}, ",
            "hpp_shape_only": f"std::size_t {VARIABLE}",
            "hpp_shape_check": f"        if ({wrong}) {{\n            return {prefix}_ERROR_LENGTH;\n        }}\n"
            f"        {prefix.lower()}_tensor tensor;\n",
            "py_open": render(
                "length_type.py.in",
                {
                    "dimensions": str(max([1, *map(len, (*self.inputs, *self.outputs))])),
                    "longest": str(self.largest),
                    "open": str(self.first_open),
                },
            ),
            "py_imports": "import bisect\n",
        }


def _needed(kind: str) -> str:
    return f"        const need sized = {kind}_need({VARIABLE}, i);\n        const need *needed = &sized;\n"


def _need_cases(specs: Sequence[TensorSpec], shapes: Sequence[Sequence[Expr]]) -> str:
    return "".join(
        f"    case {index}:\n        found.bytes = (size_t)({product_text(dims, np.dtype(spec.dtype).itemsize)});\n"
        "        break;\n"
        for index, (spec, dims) in enumerate(zip(specs, shapes, strict=True))
        if is_open(dims)
    )


def _size_cases(shapes: Sequence[Sequence[Expr]], dimensions: int) -> str:
    return "".join(
        f"    case {index * dimensions + axis}:\n        return (size_t)({c_text(dim)});\n"
        for index, dims in enumerate(shapes)
        for axis, dim in enumerate(dims)
        if is_open([dim])
    )


def _with_quotient(text: str) -> str:
    """Return C with the function for quotients before it, if it calls that."""
    return render("quotient.c", {}) + text if "quotient(" in text else text
