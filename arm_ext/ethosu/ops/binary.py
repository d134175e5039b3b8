# SPDX-License-Identifier: Apache-2.0
"""Quantised binary operators: RESCALE of each operand, ADD, SUB, MUL, MAXIMUM or MINIMUM in int32, RESCALE.

The numerics `tosa` saturate the operands of a maximum or minimum; saturating the result gives the same values.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tosa_serializer as ts
from tvm.ir import Expr, GenericConst

from arm_ext.ethosu.ops.common.constraint import TOSA, Constraint
from arm_ext.ethosu.ops.common.contract import Operation, Quirks, always, of_routine
from arm_ext.ethosu.ops.common.operators import Attributes, Operator, RunTimeTensor
from arm_ext.ethosu.ops.common.reading import Array
from arm_ext.ethosu.ops.common.rescaling import JOINED, scale_named
from arm_ext.ethosu.tosa.common import IGNORE_NAN, clamped, of_rank, rescale
from arm_ext.ethosu.tosa.graph import TosaGraph, TosaTensor
from schedules.numerics.tosa import RescaleFactor, fits
from schedules.numerics.tosa import rescale as rescaled
from schedules.numerics.tosa.binary import Term


@dataclass(frozen=True, kw_only=True)
class Binary(Attributes):
    """Attributes of a quantised binary operator; at most one operand is constant.

    Attributes:
        a: First operand.
        b: Second operand.
        y: Scale of the result's RESCALE.
        zero_point: Zero point of the result.
        low: Least value of the result.
        high: Greatest value of the result.
    """

    a: Term
    b: Term
    y: RescaleFactor
    zero_point: int
    low: int
    high: int

    @property
    def run_time(self) -> list[Term]:
        """The operands that are computed at run time."""
        return [term for term in (self.a, self.b) if term.constant is None]

    def zero_points(
        self, inputs: Sequence[RunTimeTensor], output: RunTimeTensor
    ) -> Sequence[tuple[RunTimeTensor, int]]:
        """Return the run-time tensors and the result, each with its zero point."""
        terms = zip(inputs, self.run_time, strict=True)
        return ((output, self.zero_point), *((tensor, term.zero_point) for tensor, term in terms))


@dataclass(frozen=True)
class _TosaForm:
    """The TOSA operator for a binary operator.

    Attributes:
        operator: TOSA operator code.
        values: The same operator in numpy, to bound its result.
        attributes: Further attributes that the TOSA serializer takes.
    """

    operator: Any
    values: np.ufunc
    attributes: tuple[Any, ...] = ()


_FORMS: Mapping[str, _TosaForm] = {
    "add": _TosaForm(ts.Op.ADD, np.add),
    "subtract": _TosaForm(ts.Op.SUB, np.subtract),
    "multiply": _TosaForm(ts.Op.MUL, np.multiply),
    "maximum": _TosaForm(ts.Op.MAXIMUM, np.maximum, (IGNORE_NAN,)),
    "minimum": _TosaForm(ts.Op.MINIMUM, np.minimum, (IGNORE_NAN,)),
}


def _attributes(given: Sequence[Expr], attrs: Mapping[str, Any]) -> Binary:
    """Return the attributes of a routine's call, whose constant operands are its last arguments."""
    held = [field.value.numpy() for field in given if isinstance(field, GenericConst)]

    def term(name: str) -> Term:
        scale, zero = scale_named(attrs, name), attrs.get(f"{name}_zero_point")
        return Term(0, scale, held.pop(0)) if zero is None else Term(int(zero), scale)

    return Binary(
        a=term("a"),
        b=term("b"),
        y=scale_named(attrs, "y"),
        zero_point=int(attrs["y_zero_point"]),
        low=int(attrs["low"]),
        high=int(attrs["high"]),
    )


def _terms_fit(operator: Operator[Binary]) -> bool:
    """Whether each RESCALE is defined for all values of its operands' dtypes."""
    given, runtime = operator.attributes, list(operator.inputs)
    ends: list[Array] = []
    for term in (given.a, given.b):
        if term.constant is not None:
            ends.append(np.array([term.constant.min(initial=0), term.constant.max(initial=0)], np.int64))
            continue
        info = np.iinfo(runtime.pop(0).dtype)
        reach = np.array([info.min, info.max], np.int64) - term.zero_point
        if not fits(reach, term.scale.shift):
            return False
        ends.append(rescaled(reach, term.scale.multiplier, term.scale.shift))
    return fits(_FORMS[operator.kind].values.outer(*ends), given.y.shift)


_TERMS: Constraint[Binary] = Constraint(
    "RESCALE leaves its greatest values undefined", "at most as many bits as the shift", _terms_fit, bool,
    "a greater output scale", TOSA,
)  # fmt: skip


def emit(graph: TosaGraph, operator: Operator[Binary], *data: TosaTensor) -> TosaTensor:
    """Emit RESCALE of each operand, the operator on int32, and RESCALE of the result."""
    given, out, runtime = operator.attributes, operator.output, list(data)
    operands = []
    for term in (given.a, given.b):
        if term.constant is not None:
            value = graph.constant(term.constant.astype(np.int32))
        else:
            value = rescale(graph, runtime.pop(0), term.scale, "int32", input_zero_point=term.zero_point)
        operands.append(of_rank(graph, value, len(out.shape)))
    form = _FORMS[operator.kind]
    shift = [graph.scalar(0, "int8")] if operator.kind == "multiply" else []
    value = graph.add(form.operator, [*operands, *shift], out.shape, "int32", *form.attributes)
    value = rescale(graph, value, given.y, out.dtype, zero_point=given.zero_point)
    return clamped(graph, value, given.low, given.high)


def _with_constant(operator: Operator[Any]) -> bool:
    return len(operator.inputs) == 1


ARITHMETIC: Operation[Binary] = Operation(
    kinds=("add", "subtract", "multiply"),
    patterns={f"tosa.{kind}": of_routine(kind, _attributes) for kind in ("add", "subtract", "multiply")},
    constraints=(_TERMS,),
    emit=emit,
    quirks=Quirks(reads_slices=True, rescales_apart=_with_constant, widens=_with_constant),
)
EXTREMA: Operation[Binary] = Operation(
    kinds=("maximum", "minimum"),
    patterns={f"tosa.{kind}": of_routine(kind, _attributes) for kind in ("maximum", "minimum")},
    constraints=(_TERMS,),
    emit=emit,
    quirks=Quirks(reads_slices=True, rescales_apart=always, widens=always, barrier=lambda *_: JOINED),
)
