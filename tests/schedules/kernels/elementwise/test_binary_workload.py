# SPDX-License-Identifier: Apache-2.0
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from schedules.composites.workload import Operand, Workload
from schedules.kernels.elementwise.binary_forms import Op, Per, QuantizedBinary, Rescaled
from schedules.kernels.elementwise.binary_workload import binary_of, is_rescaled, scale_of
from schedules.numerics.qdq.values import every_value
from schedules.numerics.tosa.binary import binary, binary_routine
from tests.schedules.kernels.elementwise.test_binary_forms import A, B, U, V, Y


def of_routine(
    op: Op, shapes: Sequence[tuple[int, ...]], operands: Sequence[Any], y: Per, low: int
) -> Workload:
    """What is parsed of a routine of the numerics `tosa`; a constant comes after the tensor."""
    built = binary_routine(op, (shapes[0], shapes[1]), (operands[0], operands[1]), y, (None, None))
    names = [f"{name}_{what}" for name in "aby" for what in ("multiplier", "shift", "zero_point")]
    attributes = {name: str(built.func.attrs[name]) for name in names if name in built.func.attrs}
    attributes |= {"low": str(low), "high": str(np.iinfo(y.dtype).max)}
    inputs, constants = [], []
    for shape, of in zip(shapes, operands, strict=True):
        if isinstance(of, Per):
            inputs.append(Operand(tuple(shape), of.dtype, "input", len(inputs)))
        else:
            constants.append(Operand(tuple(shape), "int32", "constant", 0))
    found = (*inputs, *constants)
    out = np.broadcast_shapes(*shapes)
    return Workload(f"arm.tosa_{op}_s8", found, tuple(sorted(attributes.items())), (), out, y.dtype)


@pytest.mark.parametrize("op", ["add", "subtract", "multiply"])
@pytest.mark.parametrize(("a", "b", "y"), [(A, B, Y), (B, U, V), (A, A, Y), (U, V, A)], ids=str)
def test_a_function_of_the_other_numerics_has_its_definition(op: Op, a: Per, b: Per, y: Per):
    low = 3 if y.dtype == "uint8" else -5
    workload = of_routine(op, ((3,), (3,)), (a, b), y, low)
    what = binary_of(workload)
    assert is_rescaled(workload)
    assert isinstance(what, Rescaled)
    assert what.exact()
    pairs = every_value(a.dtype)[:, None], every_value(b.dtype)[None, :]
    np.testing.assert_array_equal(what.definition(), np.maximum(binary(op, pairs, (a, b), y), low))
    # Beside the integers the real ratios, from which the forms start; that of a product is of both.
    own, other = (a.scale, b.scale) if op != "multiply" else (a.scale * b.scale, a.scale * b.scale)
    assert what.a.scale == pytest.approx(own / y.scale, rel=1e-6)
    assert what.b.scale == pytest.approx(other / y.scale, rel=1e-6)


def test_a_function_of_qdq_is_none_of_rescales():
    attributes = {"low": "-128", "high": "127"}
    for name, of in zip("aby", (A, B, Y), strict=True):
        attributes |= {f"{name}_scale": repr(of.scale), f"{name}_zero_point": str(of.zero_point)}
    operands = tuple(Operand((3,), "int8", "input", i) for i in range(2))
    workload = Workload("arm.add_s8", operands, tuple(sorted(attributes.items())), (), (3,), "int8")
    assert not is_rescaled(workload)
    assert binary_of(workload) == QuantizedBinary("add", A, B, Y, -128, 127)


def test_scales_are_read_by_name():
    workload = of_routine("add", ((3,), (3,)), (A, B, Y)[:2], Y, -128)
    assert scale_of(workload, "a").multiplier == 1 << 30
    assert scale_of(workload, "y").shift == int(dict(workload.attributes)["y_shift"])
