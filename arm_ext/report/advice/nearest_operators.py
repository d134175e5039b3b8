# SPDX-License-Identifier: Apache-2.0
"""Replacement of operators that an Ethos-U lacks by similar operators that it has.

    layer_norm(x, gain, bias)             →    x · gain + bias, a batch normalisation at inference
    log_softmax(x)                        →    softmax(x)
    resize(x), cubic or linear            →    resize(x) to the nearest pixel

The results are other ones, so that the model must be trained again. Their gain is known by building the changed model.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass

import tvm
from tvm import relax
from tvm.ir import Call, Expr
from tvm.relax.dpl import DFPattern, is_op, wildcard

from arm_ext.frontends.common.imported import ImportedModel
from arm_ext.report.advice.changes import Changed, ValueGraph, remade, with_main, with_module, with_values
from relay_passes.ir.calls import name_of
from relay_passes.ir.shapes import shape_of
from relay_passes.ir.sources import Names, union, with_source
from relay_passes.rewriter.engine import apply_rule
from relay_passes.rewriter.rule import Match, Rule
from schedules.diagnostic import Diagnostic

_RESIZE = "relax.image.resize2d"
_NEAREST_PIXEL = "nearest_neighbor"
# Operators that front ends emit for an interpolation that resize2d does not support: a weighted sum of rows.
_WEIGHTED_ROWS = {"relax.take", "relax.multiply", "relax.add"}

_Replaced = tuple[ImportedModel, Names]


@dataclass(frozen=True)
class Nearest:
    """A replacement of an operator that an Ethos-U lacks.

    Attributes:
        instead: The other operator, as a person reads it.
        replace: Returns the model with the other operator in the place of those of the given source nodes, and the
            source nodes that were replaced.
    """

    instead: str
    replace: Callable[[ImportedModel, Collection[str]], _Replaced]


@remade
def replaced(model: ImportedModel, names: Collection[str], nearest: Nearest) -> Changed | None:
    """Return the model with the calls of an operator replaced by a similar operator; None if it has no such calls.

    Args:
        model: The model.
        names: Names of the source nodes that may be replaced.
        nearest: Replacement of the operator.
    """
    changed, sources = nearest.replace(model, names)
    if not sources:
        return None
    return Changed(changed, sources, f"{operators_of(model, sources)} → {nearest.instead}", comparable=False)


def operators_of(model: ImportedModel, sources: Collection[str]) -> str:
    """Return the names of source nodes' operators, as the source has them."""
    return ", ".join(dict.fromkeys(model.nodes.get(name, name) for name in sources))


_x, _gain, _bias = wildcard(), wildcard(), wildcard()


def _by_rule(name: str, pattern: DFPattern, rewrite: Callable[[Match], Expr]) -> Callable[..., _Replaced]:
    def replace(model: ImportedModel, names: Collection[str]) -> _Replaced:
        def check(match: Match) -> Match | Diagnostic:
            return match if set(match.nodes) <= set(names) else match.reject("the NPU takes it")

        parts = {"x": _x, "gain": _gain, "bias": _bias, "root": pattern}
        mod: tvm.IRModule
        mod, found = apply_rule(model.mod, Rule(name, pattern, parts, check, rewrite))
        return with_module(model, mod), union(found.applied)

    return replace


def _scaled(match: Match) -> Expr:
    scaled = relax.op.multiply(match.operands["x"], match.operands["gain"])
    if match.is_constant("bias") and not match.constant("bias").any():
        return scaled
    return relax.op.add(scaled, match.operands["bias"])


def _to_nearest_pixel(model: ImportedModel, names: Collection[str]) -> _Replaced:
    graph = ValueGraph(model)
    new: dict[relax.Var, Expr] = {}
    found: list[Names] = []
    for sources, group in graph.groups().items():
        calls = [binding.value for binding in group if isinstance(binding.value, Call)]
        ends = graph.ends(group) if set(sources) <= set(names) and _interpolate(calls) else None
        if ends is None:
            continue
        before, after = (shape_of(end) for end in ends)
        resized = [
            axis for axis, sizes in enumerate(zip(before, after, strict=False)) if sizes[0] != sizes[1]
        ]
        for axes, layout in (((2, 3), "NCHW"), ((1, 2), "NHWC")):
            if len(before) == len(after) == len(layout) and resized and set(resized) <= set(axes):
                size = tuple(after[axis] for axis in axes)
                new[ends[1]] = with_source(_nearest_pixel(ends[0], size, layout), sources)
                found.append(sources)
                break
    if not new:
        return model, ()
    return with_main(model, with_values(graph.main, new)), union(found)


def _nearest_pixel(x: Expr, size: tuple[int, ...], layout: str) -> Call:
    return relax.op.image.resize2d(
        x,
        size,
        layout=layout,
        method=_NEAREST_PIXEL,
        coordinate_transformation_mode="asymmetric",
        rounding_method="floor",
    )


def _interpolate(calls: list[Call]) -> bool:
    """Whether calls, which change the size of images, compute new pixels."""
    operators = {name_of(call) for call in calls}
    if operators == {_RESIZE}:
        return any(call.attrs.method != _NEAREST_PIXEL for call in calls)
    return operators == _WEIGHTED_ROWS


NEAREST = (
    Nearest(
        "batch normalisation",
        _by_rule("norm_to_scale", is_op("relax.nn.layer_norm")(_x, _gain, _bias), _scaled),
    ),
    Nearest(
        "Softmax",
        _by_rule(
            "log_softmax_to_softmax",
            is_op("relax.nn.log_softmax")(_x),
            lambda match: relax.op.nn.softmax(match.operands["x"], match.values["root"].attrs.axis),
        ),
    ),
    Nearest("Resize to the nearest pixel (asymmetric, floor)", _to_nearest_pixel),
)
"""Replacements that are tried, each for all nodes of an operator at once."""
