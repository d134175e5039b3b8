# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace

import numpy as np

from schedules.composites.workload import Magnitude, Operand, Step, Workload
from schedules.kernels.epilogues import requantize_step
from tests.schedules.products import RESCALED, linear

CASE = linear((3,), 9, 8, quant=RESCALED[3])


def changed(workload: Workload, *, dtype: str = "int32", shift: int = 40, accumulator: int = 20) -> Workload:
    """The same with another step that requantises, or with other bounds."""
    *others, last = workload.epilogue
    assert last.operand is not None
    parameters = tuple(sorted({**dict(last.parameters), "shift": shift}.items()))
    step = replace(last, operand=replace(last.operand, dtype=dtype), parameters=parameters)
    return replace(workload, epilogue=(*others, step), magnitude=Magnitude(accumulator, 10))


def test_the_numerics_follows_from_the_step():
    to, form = requantize_step.quantization(CASE.workload)
    assert form == "rescale"
    assert (to.zero_point, to.low, to.high, to.dtype) == (-127, -100, 99, "int8")
    assert to.shift == dict(CASE.workload.epilogue[-1].parameters)["shift"]
    other, form = requantize_step.quantization(linear((3,), 9, 8).workload)
    assert (other.shift, form) == (0, "biased")


def test_integer_multipliers_travel_as_the_bits_of_floats():
    # Those from 0x7F800001 are NaNs.
    m = np.array([[1 << 30, 0x7F800001, (1 << 31) - 1, 0, 1, 0x7FC00000]], np.int32)
    step = Step("requantize", Operand(m.shape, "int32", "constant", 0), None, (("shift", 40),))
    found = requantize_step.multipliers(replace(CASE.workload, epilogue=(step,)), [m])
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found.view(np.int32), m.ravel())


def test_misfits_name_limit_and_actual():
    workload = CASE.workload
    assert requantize_step.misfit(workload) is None
    assert requantize_step.misfit(replace(workload, epilogue=())) == (
        "accumulators are not requantised",
        "requantize",
        "int8",
    )
    # A model may go from int8 to int16.
    assert requantize_step.misfit(replace(workload, output_dtype="int16")) == (
        "the output has another dtype",
        "int8 or uint8",
        "int16",
    )
    # Of TOSA's numerics, no kernel stores it.
    assert requantize_step.misfit(replace(workload, output_dtype="int16"), wide=True) is not None
    # Divisors of averages have 64 bits.
    assert requantize_step.misfit(changed(workload, dtype="int64")) == (
        "multipliers have another dtype",
        "int32",
        "int64",
    )
    assert requantize_step.misfit(changed(workload, shift=20, accumulator=20)) is None
    reason = "accumulators may exceed what a RESCALE of that shift takes"
    assert requantize_step.misfit(changed(workload, shift=20, accumulator=21)) == (reason, "2**20", "2**21")
    unknown = replace(changed(workload, shift=31), magnitude=None)
    assert requantize_step.misfit(unknown) == (reason, "2**31", "unknown")
    assert requantize_step.misfit(replace(changed(workload, shift=32), magnitude=None)) is None
