# SPDX-License-Identifier: Apache-2.0
"""Nearest-neighbour resize by integer factors, with half-pixel or asymmetric coordinates: RESIZE."""

from dataclasses import dataclass

import tosa_serializer as ts
from tvm.ir import Call

from arm_ext.ethosu.ops.common.constraint import EARLIER, MEASURED, SUPPORTED_OPS, Constraint
from arm_ext.ethosu.ops.common.contract import Operation, of_relax
from arm_ext.ethosu.ops.common.operators import Attributes, Operator
from arm_ext.ethosu.ops.common.reading import Reader
from arm_ext.ethosu.tosa.common import copied
from arm_ext.ethosu.tosa.graph import TosaGraph, TosaTensor


@dataclass(frozen=True, kw_only=True)
class NearestResize(Attributes):
    """Attributes of relax.image.resize2d.

    Attributes:
        method: Interpolation, such as "nearest_neighbor".
        coordinates: Coordinate transformation mode, such as "half_pixel".
        rounding: Rounding of coordinates to pixels.
    """

    method: str
    coordinates: str
    rounding: str


def _attributes(call: Call, _: Reader) -> NearestResize:
    attrs = call.attrs
    return NearestResize(
        method=str(attrs.method),
        coordinates=str(attrs.coordinate_transformation_mode),
        rounding=str(attrs.rounding_method),
        channels_first=str(attrs.layout) == "NCHW",
    )


def _factors(operator: Operator[NearestResize]) -> tuple[int, int]:
    """Return the upscaling factors of rows and columns; 0 for a factor that is not an integer."""
    rows, columns = (
        out // own if out % own == 0 else 0
        for out, own in zip(operator.output.shape[1:3], operator.inputs[0].shape[1:3], strict=True)
    )
    return rows, columns


def _form(operator: Operator[NearestResize]) -> str:
    """Return method, coordinates and rounding as text, prefixed by "repeats: " if the resize repeats each pixel."""
    given = operator.attributes
    found = f"{given.method}, {given.coordinates}, {given.rounding}"
    exact = given.method == "nearest_neighbor" and 0 not in _factors(operator) and _repeats(operator)
    return f"repeats: {found}" if exact else found


def _repeats(operator: Operator[NearestResize]) -> bool:
    """Whether output i is pixel i // factor along both axes."""
    mode, rounding = operator.attributes.coordinates, operator.attributes.rounding
    if mode == "asymmetric" and rounding == "floor":
        return True
    # For even factors, no output's centre lies halfway between two pixels, so the rounding does not matter.
    odd_or_half = all(factor == 1 or factor % 2 == 0 for factor in _factors(operator))
    return (
        mode == "half_pixel"
        and rounding in ("round", "round_prefer_floor", "round_prefer_ceil")
        and odd_or_half
    )


_CONSTRAINTS: tuple[Constraint[NearestResize], ...] = (
    Constraint(
        "it does not repeat each pixel", "nearest, by whole factors, rounding to the pixel inside", _form,
        lambda found: found.startswith("repeats"), "resize to the nearest by a whole factor", MEASURED,
    ),
    Constraint(
        "its factors are not powers of two", "2, 4 or 8, one for both axes", _factors,
        lambda found: found in ((2, 2), (4, 4), (8, 8)), "a factor of 2, 4 or 8", SUPPORTED_OPS, EARLIER,
    ),
)  # fmt: skip


def emit(graph: TosaGraph, operator: Operator[NearestResize], data: TosaTensor) -> TosaTensor:
    """Emit RESIZE."""
    rows, columns = _factors(operator)
    if rows == columns == 1:
        return copied(graph, data)  # Vela 5.2 miscompiles this RESIZE for Ethos-U85
    inputs = [
        data,
        graph.sizes([2 * rows, 2, 2 * columns, 2]),
        graph.sizes([1 - rows, 1 - columns]),
        graph.sizes([rows - 1, columns - 1]),
    ]
    return graph.add(ts.Op.RESIZE, inputs, operator.output.shape, data.dtype, ts.ResizeMode.NEAREST)


OPERATION: Operation[NearestResize] = Operation(
    kinds=("image.resize2d",),
    patterns={"image.resize2d": of_relax("image.resize2d", _attributes)},
    constraints=_CONSTRAINTS,
    emit=emit,
)
