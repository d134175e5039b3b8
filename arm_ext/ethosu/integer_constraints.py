# SPDX-License-Identifier: Apache-2.0
"""Constraints of operators that select elements, or that compute with Relax's integer arithmetic."""

from arm_ext.ethosu import facts, integer_facts, width_facts
from arm_ext.ethosu.constraint import EARLIER, MEASURED, SUPPORTED_OPS, TOSA, Constraint, at_most
from arm_ext.ethosu.integer_ops import INDICES
from arm_ext.ethosu.ranges import COMPUTED
from arm_ext.ethosu.tosa.integers import ARITHMETIC, BITWISE, COMPARISONS, EXTREMA, LOGICAL
from arm_ext.ethosu.tosa.picks import MAX_RUNS
from arm_ext.ethosu.tosa.scatter import SCATTERS

_WIDENING = (("int8", "int16"), ("int8", "int32"), ("int16", "int32"))

INTEGER_CONSTRAINTS: tuple[Constraint, ...] = (
    Constraint(
        INDICES, "it looks among data of other than 8 bits", "int8", width_facts.input_dtypes,
        lambda found: found == ("int8",), "quantise its data to int8", MEASURED,
    ),
    Constraint(
        INDICES, "it looks along another axis than the channels, or along too many", "the last axis, at most 127 long",
        integer_facts.picked_depth, lambda depth: 0 < depth <= 127, "put the axis last, or split it", SUPPORTED_OPS,
        EARLIER,
    ),
    Constraint(
        INDICES, "it gives too many indices", "at most 65536", integer_facts.places, at_most(1 << 16), "split the data",
        SUPPORTED_OPS, EARLIER,
    ),
    Constraint(
        ("take",), "its indices are not constants in few runs", f"at most {MAX_RUNS} runs", integer_facts.index_runs,
        lambda found: found is not None and found <= MAX_RUNS, "slice and concatenate", SUPPORTED_OPS, EARLIER,
    ),
    Constraint(
        ("take",), "it gathers elements one by one", "rows of 2 and more", integer_facts.gathered_row,
        lambda size: size is None or size > 1, "put the axis before another", MEASURED, ("u85",),
    ),
    Constraint(
        (*BITWISE, *COMPARISONS, *LOGICAL, *SCATTERS, "logical_right_shift", "divide", "where"),
        "the accelerator has no such operator",
        "of Ethos-U85", lambda op: op.kind, lambda _: False, "leave it to the CPU", SUPPORTED_OPS, EARLIER,
    ),
    Constraint(
        ("right_shift",), "the accelerator rounds what it shifts right", "of Ethos-U85", lambda op: op.kind,
        lambda _: False, "leave it to the CPU", SUPPORTED_OPS, EARLIER,
    ),
    Constraint(
        integer_facts.EXTREMES, "the accelerator reduces integers alone", "int8 or int16", facts.dtypes,
        lambda found: found != ("bool",), "leave it to the CPU", SUPPORTED_OPS, EARLIER,
    ),
    Constraint(
        SCATTERS, "it combines what it writes with what is there", "update", lambda op: op.call.attrs.reduction,
        lambda reduction: reduction == "update", "leave it to the CPU", TOSA, ("u85",),
    ),
    Constraint(
        SCATTERS, "it may write an element twice", "distinct constants", integer_facts.distinct_rows,
        lambda found: found == "distinct constants", "make its indices constants, each there once", TOSA, ("u85",),
    ),
    Constraint(
        tuple(ARITHMETIC), "TOSA computes it in 32 bits alone", "int32", integer_facts.integer_dtypes,
        lambda found: found == ("int32",), "widen it first", TOSA,
    ),
    Constraint(
        COMPUTED, "its result may leave 32 bits, or is of no meaning", "operands of which TOSA says what they give",
        integer_facts.defined, bool, "widen fewer bits, or divide and shift by constants", TOSA,
    ),
    Constraint(
        (*EXTREMA, *BITWISE), "TOSA has it for integers of other widths", "int8, int16 or int32",
        integer_facts.integer_dtypes, lambda found: set(found) <= {"int8", "int16", "int32"}, "another type", TOSA,
    ),
    Constraint(
        (*COMPARISONS, *LOGICAL, "where"), "TOSA has it for other types", "bool, int8, int16 or int32",
        integer_facts.integer_dtypes, lambda found: set(found) <= {"bool", "int8", "int16", "int32"}, "another type",
        TOSA, ("u85",),
    ),
    Constraint(
        ("astype",), "TOSA has no cast between these types", "bool, int8, int16 or int32", facts.dtypes,
        lambda found: set(found) <= {"bool", "int8", "int16", "int32"}, "another type", TOSA,
    ),
    Constraint(
        ("astype",), "it narrows integers, or makes truths of them", "int8 to int16 or int32, int16 to int32",
        lambda op: (op.inputs[0].dtype, op.output.dtype), lambda pair: pair in _WIDENING,
        "requantise by a scale of 1", MEASURED, EARLIER,
    ),
)  # fmt: skip
"""Of them the first that is violated is the reason."""
