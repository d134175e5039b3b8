# SPDX-License-Identifier: Apache-2.0
import dataclasses

import numpy as np
import pytest

from schedules.composites.workload import Operand, OperandPadding, Step, Workload
from schedules.diagnostic import Diagnostic
from schedules.kernels.gemm.implicit_rows import ImplicitRows
from schedules.kernels.gemm.product import GemmProduct, weights_by_column
from schedules.kernels.gemm.product_float import product_of
from tests.schedules.float_cases import conv2d
from tests.schedules.programs import linear


def test_linear_layer():
    product = product_of(linear(3, 5, 4, lead=(2,)), "k")
    assert product == GemmProduct(ImplicitRows((1, 1, 6), (0, 0, 4), ((0, 4),)), 5, 1, 0, None)


def test_convolution_lies_in_its_padded_data():
    product = product_of(conv2d((2, 5, 6, 8), 6, (3, 1), groups=2, padding=(1, 0, 0, 2)), "k")
    assert isinstance(product, GemmProduct)
    assert (product.columns, product.groups, product.group_step) == (3, 2, 4)
    assert product.pad == OperandPadding(((0, 0), (1, 0), (0, 2), (0, 0)), 0)
    assert product.rows.shape == (2, 4, 8)
    assert product.rows.strides == (6 * 8 * 8, 8 * 8, 8)
    assert product.rows.segments == ((0, 4), (64, 4), (128, 4))


def test_weights_have_the_order_of_the_segments():
    workload = conv2d((1, 3, 3, 4), 4, (2, 1), groups=2)
    product = product_of(workload, "k")
    assert isinstance(product, GemmProduct)
    w = np.arange(16, dtype=np.float32).reshape(4, 2, 1, 2)
    columns = weights_by_column(workload, [w], product)
    np.testing.assert_array_equal(columns[1], [[8, 9, 10, 11], [12, 13, 14, 15]])


def _with_attribute(workload: Workload, **changed: str) -> Workload:
    attributes = tuple(sorted({**dict(workload.attributes), **changed}.items()))
    return dataclasses.replace(workload, attributes=attributes)


LINEAR, CONV = linear(2, 5, 4), conv2d((1, 5, 5, 4), 8, (3, 3))
A, B = LINEAR.operands


@pytest.mark.parametrize(
    ("workload", "limit", "actual"),
    [
        (dataclasses.replace(LINEAR, composite="arm.other"), "arm.conv2d or arm.linear", "arm.other"),
        (
            dataclasses.replace(LINEAR, operands=(dataclasses.replace(A, dtype="float16"), B)),
            "float32",
            "float16, float32",
        ),
        (
            dataclasses.replace(LINEAR, operands=(A, Operand((4, 5), "float32", "input", 1))),
            "constant",
            "input",
        ),
        (
            dataclasses.replace(LINEAR, operands=(A, dataclasses.replace(B, shape=(3, 4, 5)))),
            "2 dimensions",
            "3 dimensions",
        ),
        (linear(0, 5, 4), "1 or more", "(0, 4)"),
        (_with_attribute(CONV, data_layout="NCHW"), "NHWC, OHWI", "NCHW, OHWI, NHWC"),
    ],
)
def test_near_misses_name_limit_and_actual(workload: Workload, limit: str, actual: str):
    answer = product_of(workload, "k")
    assert isinstance(answer, Diagnostic)
    assert (answer.asked, answer.limit, answer.actual) == ("k", limit, actual)


def test_step_without_an_implementation():
    answer = product_of(dataclasses.replace(CONV, epilogue=(Step("softmax"),)), "k")
    assert isinstance(answer, Diagnostic)
    assert answer.actual == "softmax"
    assert "silu" in answer.limit
