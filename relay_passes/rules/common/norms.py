# SPDX-License-Identifier: Apache-2.0
"""Patterns and checks of the rules for decomposed layer norm and RMS norm."""

from dataclasses import dataclass

from tvm import relax
from tvm.ir import Expr
from tvm.relax.dpl import DFPattern, is_const, is_op
from tvm.tirx import IntImm

from relay_passes.rewriter.rule import Match
from relay_passes.rules.common.scalars import is_number, uniform_value
from schedules.diagnostic import Diagnostic

_add, _multiply, _divide = is_op("relax.add"), is_op("relax.multiply"), is_op("relax.divide")


OTHER_MEAN = "mean_of_squares"
"""The name of the mean of x² among a rule's parts, where its squares are not those of d."""


@dataclass(frozen=True)
class OverRms:
    """The pattern of d / sqrt(mean(d²) + epsilon) · gain, in all orders that exporters emit.

    Attributes:
        root: The whole pattern.
        parts: Named parts of the pattern, for `check_over_rms`.
    """

    root: DFPattern
    parts: dict[str, DFPattern]


def over_rms(d: DFPattern, same_mean: DFPattern | None = None) -> OverRms:
    """Return the pattern of `d` / its root mean square; `same_mean` is an alternative pattern of the mean square."""
    epsilon, two, one, gain = (is_const() for _ in range(4))
    mean = is_op("relax.mean")(square(d, two))
    value = _add(mean if same_mean is None else mean | same_mean, epsilon)
    root_of_value = is_op("relax.sqrt")(value)
    inverse = is_op("relax.rsqrt")(value) | _divide(one, root_of_value)
    gained = _multiply(d, _multiply(inverse, gain))
    root = _divide(d, root_of_value) | _multiply(d, inverse) | gained
    parts = {
        "epsilon": epsilon,
        "two": two,
        "one": one,
        "mean": mean,
        "value": value,
        "root": root,
        "gain": gain,
    }
    return OverRms(root, parts)


def square(x: DFPattern, two: DFPattern) -> DFPattern:
    """Return the pattern of x², as a product or a power."""
    return _multiply(x, x) | is_op("relax.square")(x) | is_op("relax.power")(x, two)


def with_gain(match: Match, norm: Expr) -> Expr:
    """Return the norm, multiplied by the gain if the match has a gain."""
    return relax.op.multiply(norm, match.operands["gain"]) if "gain" in match.operands else norm


def check_over_rms(match: Match) -> Diagnostic | None:
    """Return why the parts are not those of a norm over the last axes; None if they are."""
    for part, number in (("two", 2.0), ("one", 1.0)):
        if part in match.operands and not is_number(match.operands[part], number):
            return match.reject(
                f"{part} is not {number}", limit=number, actual=uniform_value(match.operands[part])
            )
    if uniform_value(match.operands["epsilon"]) is None:
        return match.reject("epsilon is not one number")
    if match.values["value"].ty != match.values[squares_mean(match)].ty:
        return match.reject("epsilon enlarges the tensor")
    if match.values["root"].ty != match.operands["x"].ty:
        return match.reject("the gain enlarges the tensor")
    return check_mean(match, squares_mean(match))


def squares_mean(match: Match) -> str:
    """Return the name of the part that matched the mean of squares: of d, or of x in the alternative form."""
    return "mean" if "mean" in match.values else OTHER_MEAN


def check_mean(match: Match, part: str) -> Diagnostic | None:
    """Return why the mean is not over the last axes with `keepdims`; None if it is."""
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
    """Return the axes of a mean, counted from 0 and sorted."""
    rank, axes = len(match.values["root"].ty.shape), match.values[part].attrs.axis
    return list(range(rank)) if axes is None else sorted(int(axis) % rank for axis in axes)


def normalized_shape(match: Match) -> list[int]:
    """Return the sizes of the normalised axes."""
    return [int(match.values["root"].ty.shape[axis]) for axis in mean_axes(match, squares_mean(match))]
