# SPDX-License-Identifier: Apache-2.0
import dataclasses
from typing import Any

import numpy as np
import pytest

from schedules.composites.workload import Magnitude, Operand, OperandPadding, Step, Workload
from schedules.diagnostic import Diagnostic
from schedules.kernels.gemm.product_s8 import (
    IntegerProduct,
    offsets_and_multipliers,
    product_of,
    weights_by_column,
)
from schedules.numerics.binary32 import MAGIC_BITS
from tests.schedules.products import UNSIGNED, conv, linear

CONV = conv((1, 6, 5, 4), 6, (3, 3), groups=2, pads=(1, 0, 1, 0))
LINEAR = linear((2, 3), 9, 7)


def _product(workload: Workload) -> IntegerProduct:
    found = product_of(workload, "any")
    assert isinstance(found, IntegerProduct)
    return found


def test_a_convolution_is_a_product_a_group():
    product = _product(CONV.workload)
    assert (product.rows.count, product.rows.depth, product.columns, product.groups) == (6 * 3, 18, 3, 2)
    assert product.data == (1, 8, 5, 4)
    assert product.macs == 18 * 18 * 6
    assert product.group_step == 2


def test_a_linear_layer_is_one_product_of_all_leading_dimensions():
    product = _product(LINEAR.workload)
    assert (product.rows.count, product.rows.depth, product.columns, product.groups) == (6, 9, 7, 1)
    assert product.pad is None


def test_weights_are_in_the_order_of_the_rows():
    w = CONV.constants[0]
    found = weights_by_column(CONV.workload, CONV.constants, _product(CONV.workload))
    np.testing.assert_array_equal(found[1, 2], w[5].ravel())
    found = weights_by_column(LINEAR.workload, LINEAR.constants, _product(LINEAR.workload))
    np.testing.assert_array_equal(found[0], LINEAR.constants[0].T)


def test_offsets_hold_what_flipping_takes_and_what_the_form_adds():
    case = linear((1,), 3, 2, quant=UNSIGNED)
    product = dataclasses.replace(_product(case.workload), form="biased")
    w, offset, m = case.constants
    found, multipliers = offsets_and_multipliers(case.workload, case.constants, product)
    np.testing.assert_array_equal(found, offset + 128 * w.astype(int).sum(0) + MAGIC_BITS)
    np.testing.assert_array_equal(multipliers, m)


def test_one_multiplier_serves_all_columns():
    w, offset, _ = LINEAR.constants
    constants = (w, offset, np.array([0.5], np.float32))
    product = _product(LINEAR.workload)
    assert offsets_and_multipliers(LINEAR.workload, constants, product)[1].tolist() == [0.5] * 7


@pytest.mark.parametrize(
    ("magnitude", "form"),
    [
        (Magnitude(22, 13), "biased"),
        (Magnitude(23, 13), "magic"),
        (Magnitude(30, 14), "magic"),
        (Magnitude(21, 15), "convert"),
        (None, "convert"),
    ],
)
def test_form_follows_from_the_magnitude(magnitude: Magnitude | None, form: str):
    assert _product(dataclasses.replace(LINEAR.workload, magnitude=magnitude)).form == form


def _with(workload: Workload, operand: int, **changes: Any) -> Workload:
    operands = list(workload.operands)
    operands[operand] = dataclasses.replace(operands[operand], **changes)
    return dataclasses.replace(workload, operands=tuple(operands))


def _attribute(name: str, value: str) -> Workload:
    return dataclasses.replace(CONV.workload, attributes=(*CONV.workload.attributes, (name, value)))


WIDE = Step("offset", Operand((6, 5, 6), "int32", "constant", 1))
NEAR_MISSES = {
    "composite": (dataclasses.replace(CONV.workload, composite="arm.linear"), "arm.linear"),
    "data of 16 bits": (_with(CONV.workload, 0, dtype="int16"), "int16 by int8"),
    "weights of run time": (_with(LINEAR.workload, 1, kind="input"), "input"),
    "batched weights": (_with(LINEAR.workload, 1, shape=(2, 9, 7)), "(2, 9, 7)"),
    "permuted data": (_with(LINEAR.workload, 0, axes=(1, 0, 2)), "(1, 0, 2)"),
    "empty": (_with(LINEAR.workload, 0, shape=(0, 3, 9)), "(0, 3, 9)"),
    "not requantised": (
        dataclasses.replace(CONV.workload, epilogue=CONV.workload.epilogue[:1], output_dtype="int32"),
        "int32",
    ),
    "a step without implementation": (
        dataclasses.replace(CONV.workload, epilogue=(*CONV.workload.epilogue, Step("residual"))),
        "residual",
    ),
    "an offset a pixel": (
        dataclasses.replace(CONV.workload, epilogue=(WIDE, CONV.workload.epilogue[1])),
        "(6, 5, 6)",
    ),
    "channels first": (_attribute("data_layout", "NCHW"), "NCHW, OHWI, NHWC"),
    "padded twice": (_attribute("padding", "[1, 1, 1, 1]"), "[1, 1, 1, 1]"),
}


@pytest.mark.parametrize("name", NEAR_MISSES)
def test_near_misses_name_what_they_have(name: str):
    workload, actual = NEAR_MISSES[name]
    answer = product_of(workload, "asker")
    assert isinstance(answer, Diagnostic)
    assert (answer.asked, answer.actual) == ("asker", actual)
    assert answer.reason
    assert answer.limit


def test_padding_of_the_convolution_itself_is_zero():
    workload = dataclasses.replace(CONV.workload, pad=None)
    workload = dataclasses.replace(workload, attributes=(*workload.attributes, ("padding", "[1, 2, 3, 4]")))
    assert _product(workload).pad == OperandPadding.spatial((1, 2, 3, 4), 0)
