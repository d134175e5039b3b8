# SPDX-License-Identifier: Apache-2.0
"""Parts of a C library for functions that take a size: a length up to a bound, or a number of samples.

The caller's buffers have as many bytes as follow from the size. A length is passed on to the program; for several
samples, the program is run once for each.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from tvm import relax, tirx
from tvm.ir import Expr, Var

from arm_ext.clibrary.lengths import VARIABLE, c_text, is_open, most, product_text
from arm_ext.clibrary.text import comment, render
from arm_ext.frontends.common.imported import ImportedModel, TensorSpec
from relay_passes.lengths.fix_length import dims_of

Shapes = tuple[tuple[Expr, ...], ...]


@dataclass(frozen=True)
class OpenSize(ABC):
    """A size of inputs and outputs that the library's functions take as an argument.

    Attributes:
        name: Name of the size in --shape.
        largest: The greatest value that the program takes.
        tested: The value in the self-test.
        inputs: Sizes of each input.
        outputs: Sizes of each output.
    """

    name: str
    largest: int
    tested: int
    inputs: Shapes
    outputs: Shapes

    argument: ClassVar[str]
    """Name of the argument in C."""
    constants: ClassVar[str]
    """What the sizes in the header are for, in the words of its comment."""

    def at_largest(self, model: ImportedModel) -> ImportedModel:
        """Return the model with inputs and outputs of the greatest size that the program takes."""
        inputs, outputs = (
            tuple(
                replace(spec, shape=tuple(most([dim], self.largest) for dim in dims))
                for spec, dims in zip(specs, shapes, strict=True)
            )
            for specs, shapes in ((model.inputs, self.inputs), (model.outputs, self.outputs))
        )
        return replace(model, inputs=inputs, outputs=outputs)

    def values(self, name: str, model: ImportedModel) -> dict[str, str]:
        """Return the placeholders of the sources' templates and their values.

        Args:
            name: Name of the library.
            model: The model that `at_largest` returned.
        """
        given, prefix = self.argument, name.upper()
        limit = f"{prefix}_{given.upper()}_MAX"
        wrong = self._wrong(limit)
        known = {"name": name, "NAME": prefix, "open": given, "open_wrong": wrong}
        dimensions = max([1, *map(len, (*self.inputs, *self.outputs))])
        first = next(index for index, dims in enumerate(self.inputs) if is_open(dims))
        needs, tensors = "", ""
        for kind, specs, shapes in (
            ("input", model.inputs, self.inputs),
            ("output", model.outputs, self.outputs),
        ):
            one = known | {"kind": kind, "KIND": kind.upper()}
            needs += render("open_need.c", one | {"open_cases": _need_cases(specs, shapes)})
            tensors += render("open_tensor.c", one | {"open_cases": _size_cases(shapes, dimensions)})
        needed = "        const need sized = {}_need(length, i);\n        const need *needed = &sized;\n"
        return {
            "shape_parameter": f"size_t {given}, ",
            "shape_pass": f"{given}, ",
            "shape_text": f"\n * `{given}` is the size {comment(self.name)} of the shapes above; buffers have "
            "the sizes that follow from it.",
            "open": given,
            "open_limit": f"/** Largest {comment(self.name)}; the sizes below are for {self.constants}. */\n"
            f"#define {limit} {self._limit(model)}\n{self._least(prefix)}\n",
            "open_parameter": " int64_t length,",
            "open_pass": f"(int64_t){given}, ",
            "open_check": render("length_check.c", known),
            "open_needs": needs,
            "input_needed": needed.format("input"),
            "output_needed": needed.format("output"),
            "tensor_functions": quotient_for(tensors) + tensors,
            "tensor_text": f"\n * It is written to `tensor`, for `{given}`.",
            "tensor_parameter": f", {name}_tensor *tensor",
            "tensor_pass": ", &tensor",
            "tensor_declaration": f"    {name}_tensor tensor;\n",
            "hpp_shape": f"std::size_t {given}, ",
            "hpp_shape_only": f"std::size_t {given}",
            "hpp_shape_check": f"        if ({wrong}) {{\n            return {prefix}_ERROR_LENGTH;\n        }}\n"
            f"        {name}_tensor tensor;\n",
            "py_open": render(
                "length_type.py.in", known | {"dimensions": str(dimensions), "first_open": str(first)}
            ),
        } | self._own_values()

    @abstractmethod
    def _wrong(self, limit: str) -> str:
        """Return the C condition under which the argument is refused."""

    @abstractmethod
    def _limit(self, model: ImportedModel) -> str:
        """Return the greatest argument as a C expression."""

    def _least(self, prefix: str) -> str:
        """Return the C definition of the least argument; empty if that is 0."""
        return ""

    @abstractmethod
    def _own_values(self) -> dict[str, str]:
        """Return the placeholders that differ between kinds of open sizes, and their values."""


@dataclass(frozen=True)
class OpenLength(OpenSize):
    """A length up to a bound.

    Attributes:
        least: The least that the model takes.
    """

    least: int = 1

    argument, constants = VARIABLE, "it"

    @staticmethod
    def of(main: relax.Function, name: str, largest: int, model: ImportedModel) -> "OpenLength":
        """Return the length that a planned function takes.

        Args:
            main: The planned function.
            name: Name of the length.
            largest: The greatest length.
            model: The model with the sizes of the self-test's inputs.
        """
        result = main.ret_ty
        outputs = list(result.fields) if isinstance(result, relax.TupleType) else [result]
        inputs = tuple(tuple(dims_of(param.ty)) for param in main.params)
        tested = next(
            size
            for spec, dims in zip(model.inputs, inputs, strict=True)
            for size, dim in zip(spec.shape, dims, strict=True)
            if isinstance(dim, Var)
        )
        sizes = tuple(tuple(dims_of(ty)) for ty in outputs)
        return OpenLength(name, largest, tested, inputs, sizes, model.least)

    def _wrong(self, limit: str) -> str:
        return f"length < {limit.removesuffix('MAX')}MIN || length > {limit}"

    def _limit(self, model: ImportedModel) -> str:
        return f"{self.largest}u"

    def _least(self, prefix: str) -> str:
        return f"/** Smallest. */\n#define {prefix}_{self.argument.upper()}_MIN {self.least}u\n"

    def _own_values(self) -> dict[str, str]:
        return {
            "compute_parameter": "int64_t length, ",
            "compute_pass": "(int64_t)length, ",
            "length_used": "    (void)length;\n",
            "part_length": "    int64_t length;\n",
            "py_imports": "import bisect\n",
            "py_find": render("length.py.in", {"longest": str(self.largest)}),
        }


class OpenSamples(OpenSize):
    """Any number of samples, which are computed one by one."""

    argument, constants = "samples", "1"

    @staticmethod
    def of(model: ImportedModel) -> "OpenSamples":
        """Return the open number of samples of a model, which was imported with the self-test's number."""
        first = next(spec for spec in model.inputs if spec.batch)
        number = tirx.Var(first.batch, "int64")

        def shapes(specs: Sequence[TensorSpec]) -> Shapes:
            sizes = (tuple(tirx.IntImm("int64", size) for size in spec.shape) for spec in specs)
            return tuple(
                (number, *dims[1:]) if spec.batch else dims for spec, dims in zip(specs, sizes, strict=True)
            )

        return OpenSamples(first.batch, 1, first.shape[0], shapes(model.inputs), shapes(model.outputs))

    def _wrong(self, limit: str) -> str:
        return f"samples > {limit}"

    def _limit(self, model: ImportedModel) -> str:
        return (
            f"(SIZE_MAX / 2 / {max(most(dims, 1) * _item_bytes(spec) for spec, dims in self._ends(model))})"
        )

    def _ends(self, model: ImportedModel) -> list[tuple[TensorSpec, tuple[Expr, ...]]]:
        specs = (*model.inputs, *model.outputs)
        return list(zip(specs, (*self.inputs, *self.outputs), strict=True))

    def _own_values(self) -> dict[str, str]:
        return {
            "compute": "compute_samples",
            "compute_pass": "samples, ",
            "has_samples": ", ".join([*(str(int(is_open(dims))) for dims in self.inputs), "0"]),
            "py_find": '        length = size // _bytes(*self._tensor(1, "input", _OPEN)[1:])\n',
        }


def _item_bytes(spec: TensorSpec) -> int:
    return np.dtype(spec.dtype).itemsize


def _need_cases(specs: Sequence[TensorSpec], shapes: Shapes) -> str:
    return "".join(
        f"    case {index}:\n        found.bytes = (size_t)({product_text(dims, _item_bytes(spec))});\n        break;\n"
        for index, (spec, dims) in enumerate(zip(specs, shapes, strict=True))
        if is_open(dims)
    )


def _size_cases(shapes: Shapes, dimensions: int) -> str:
    return "".join(
        f"    case {index * dimensions + axis}:\n        return (size_t)({c_text(dim)});\n"
        for index, dims in enumerate(shapes)
        for axis, dim in enumerate(dims)
        if is_open([dim])
    )


def quotient_for(*texts: str) -> str:
    """Return the function for quotients in C, if a text calls it."""
    return render("quotient.c", {}) if any("quotient(" in text for text in texts) else ""
