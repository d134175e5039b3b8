# SPDX-License-Identifier: Apache-2.0
"""Parts of a C library for functions with a run-time size: a length up to a bound, or a number of samples.

The caller's buffers have as many bytes as follow from the size. A length is passed on to the program; for several
samples, the program is run once for each.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from tvm import relax, tirx
from tvm.ir import Expr, Var

from arm_ext.clibrary.lengths import VARIABLE, c_text, is_open, most, product_text
from arm_ext.frontends.common.imported import ImportedModel, TensorSpec
from relay_passes.lengths.fix_length import dims_of

Shapes = tuple[tuple[Expr, ...], ...]


@dataclass(frozen=True)
class OpenSize:
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

    def at_largest(self, model: ImportedModel) -> ImportedModel:
        """Return the model with its inputs and outputs at their maximum size."""
        inputs, outputs = (
            tuple(
                replace(spec, shape=tuple(most([dim], self.largest) for dim in dims))
                for spec, dims in zip(specs, shapes, strict=True)
            )
            for specs, shapes in ((model.inputs, self.inputs), (model.outputs, self.outputs))
        )
        return replace(model, inputs=inputs, outputs=outputs)


@dataclass(frozen=True)
class OpenLength(OpenSize):
    """A length up to a bound.

    Attributes:
        least: The least that the model takes.
    """

    least: int = 1

    argument = VARIABLE

    @staticmethod
    def of(main: relax.Function, name: str, largest: int, model: ImportedModel) -> "OpenLength":
        """Return the open length of a planned function.

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


class OpenSamples(OpenSize):
    """A run-time number of samples, which are computed one by one."""

    argument = "samples"

    @staticmethod
    def of(model: ImportedModel) -> "OpenSamples":
        """Return the open number of samples of a model that was imported with the self-test's number."""
        first = next(spec for spec in model.inputs if spec.batch)
        number = tirx.Var(first.batch, "int64")

        def shapes(specs: Sequence[TensorSpec]) -> Shapes:
            sizes = (tuple(tirx.IntImm("int64", size) for size in spec.shape) for spec in specs)
            return tuple(
                (number, *dims[1:]) if spec.batch else dims for spec, dims in zip(specs, sizes, strict=True)
            )

        return OpenSamples(first.batch, 1, first.shape[0], shapes(model.inputs), shapes(model.outputs))


def open_bytes(dims: Sequence[Expr], item_bytes: int) -> str:
    """Return the size of a tensor in bytes as a C expression of the open size; "" if its sizes are fixed."""
    return product_text(dims, item_bytes) if is_open(dims) else ""


def open_dims(dims: Sequence[Expr]) -> dict[int, str]:
    """Return axis → size as a C expression, for each axis whose size depends on the open size."""
    return {axis: c_text(dim) for axis, dim in enumerate(dims) if is_open([dim])}
