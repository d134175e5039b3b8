# SPDX-License-Identifier: Apache-2.0
"""What the decomposed forms of layer norm and RMS norm share."""

from dataclasses import dataclass

from tvm.relax.dpl import DFPattern, is_const, is_op
from tvm.tirx import IntImm

from relay_passes.rule import Match, Rejection
from relay_passes.rules.scalars import is_number, uniform_value

_add, _multiply, _divide = is_op("relax.add"), is_op("relax.multiply"), is_op("relax.divide")


@dataclass(frozen=True)
class OverRms:
    """The pattern of d / sqrt(mean(d²) + epsilon), in the orders that exporters write it in.

    Attributes:
        root: The whole.
        parts: Its parts, for `check_over_rms`.
    """

    root: DFPattern
    parts: dict[str, DFPattern]


def over_rms(d: DFPattern) -> OverRms:
    """The pattern for the pattern of `d`."""
    epsilon, two, one = is_const(), is_const(), is_const()
    squares = _multiply(d, d) | is_op("relax.square")(d) | is_op("relax.power")(d, two)
    mean = is_op("relax.mean")(squares)
    value = _add(mean, epsilon)
    root_of_value = is_op("relax.sqrt")(value)
    inverse = is_op("relax.rsqrt")(value) | _divide(one, root_of_value)
    root = _divide(d, root_of_value) | _multiply(d, inverse)
    parts = {"epsilon": epsilon, "two": two, "one": one, "mean": mean, "value": value, "root": root}
    return OverRms(root, parts)


def check_over_rms(match: Match) -> Rejection | None:
    """Why the parts are not those of a norm over the last axes, or None."""
    for part, number in (("two", 2.0), ("one", 1.0)):
        if part in match.operands and not is_number(match.operands[part], number):
            return match.reject(
                f"{part} is not {number}", limit=number, actual=uniform_value(match.operands[part])
            )
    if uniform_value(match.operands["epsilon"]) is None:
        return match.reject("epsilon is not one number")
    if match.values["value"].ty != match.values["mean"].ty:
        return match.reject("epsilon enlarges the tensor")
    return check_mean(match, "mean")


def check_mean(match: Match, part: str) -> Rejection | None:
    """Why the mean is not one over the last axes, kept as axes of one element, or None."""
    axes, rank = mean_axes(match, part), len(match.values["root"].ty.shape)
    if not match.values[part].attrs.keepdims:
        return match.reject(f"{part} does not keep the axes")
    if len(axes) == rank:
        return match.reject(f"{part} is over all axes", limit=rank - 1, actual=rank)
    if axes != list(range(rank - len(axes), rank)):
        return match.reject(f"{part} is not over the last axes", limit=rank - 1, actual=axes)
    if not all(isinstance(match.values["root"].ty.shape[axis], IntImm) for axis in axes):
        return match.reject("a normalised axis is not static")
    return None


def mean_axes(match: Match, part: str) -> list[int]:
    """The axes of a mean, from 0, sorted."""
    rank, axes = len(match.values["root"].ty.shape), match.values[part].attrs.axis
    return list(range(rank)) if axes is None else sorted(int(axis) % rank for axis in axes)


def normalized_shape(match: Match) -> list[int]:
    """Sizes of the axes that the norm goes over."""
    return [int(match.values["root"].ty.shape[axis]) for axis in mean_axes(match, "mean")]
