# SPDX-License-Identifier: Apache-2.0
import itertools
import math

import numpy as np
import pytest
import tvm
from tvm import relax, tirx
from tvm.relax import op

from schedules.composites.transposed_convolution import Geometry
from schedules.cores import X86_64
from schedules.generic import LEGALIZE, schedule
from schedules.numerics.qdq.conv2d_transpose import accumulators
from tests.schedules.generic.operators import lowered, run
from tests.schedules.programs import host
from tests.schedules.transposed_cases import SINGLE


def _legalized(geometry: Geometry) -> tirx.PrimFunc:
    builder = relax.BlockBuilder()
    x, w = (
        relax.Var(n, relax.TensorType(s, "float32"))
        for n, s in (("x", geometry.data), ("w", geometry.weights))
    )
    with builder.function("main", [x, w]):
        given = {
            name: getattr(geometry, name)
            for name in ("strides", "padding", "output_padding", "dilation", "groups")
        }
        layouts = {"data_layout": "NHWC", "kernel_layout": "OHWI"}
        builder.emit_func_output(builder.normalize(op.nn.conv2d_transpose(x, w, **given, **layouts)))
    return _only(builder.get(), LEGALIZE)


def _only(mod: tvm.IRModule, table: dict | None) -> tirx.PrimFunc:
    """The one PrimFunc that a module becomes."""
    with host():
        mod = relax.transform.FuseTIR()(relax.transform.LegalizeOps(table)(mod))
    (func,) = [func for func in mod.functions.values() if isinstance(func, tirx.PrimFunc)]
    return func


# A line of two inputs, whose last vector of outputs begins at a constant.
LINES = [
    Geometry(
        (1, 1, 2, 1), (1, 1, kernel, 1), (stride, stride), (0, 0, 0, 0), (extra, extra), (1, dilation), 1
    )
    for kernel, stride, dilation, extra in itertools.product((2, 3, 4), (2, 3), (1, 2), (0, 1))
]


@pytest.mark.parametrize("geometry", [SINGLE, *LINES], ids=str)
def test_few_outputs_are_the_definitions_as_legalized_and_as_scheduled(geometry: Geometry):
    shapes = (geometry.data, geometry.weights)
    x, w = (np.arange(1, math.prod(shape) + 1, dtype="float32").reshape(shape) for shape in shapes)
    expected = accumulators(x, w.astype(np.int64), 0, geometry)
    func = _legalized(geometry)
    outputs = run([func, schedule(func, X86_64).func], [x, w, np.full(geometry.output, 99, "float32")])
    for *_, actual in outputs:
        np.testing.assert_array_equal(actual, expected)


@pytest.mark.each_once
@pytest.mark.parametrize(
    ("size", "kernel", "stride", "padding", "others", "copied"),
    [
        (32, 3, 2, 1, {}, None),
        (31, 3, 2, 1, {}, None),
        (31, 3, 2, 0, {}, None),
        (7, 2, 4, 1, {}, None),
        (8, 3, 2, 1, {"ceil_mode": True}, None),
        (9, 2, 3, 0, {"dilation": 2}, None),
        (9, 3, 2, 2, {"dilation": 2}, 13),  # it steps over what lies at an edge
        (6, 2, 3, 2, {}, 8),  # the first window sees padding alone
        (8, 3, 1, 1, {}, 10),
        (32, 5, 2, 2, {}, 35),  # the last window ends one behind the data
        (9, 4, 2, 0, {"ceil_mode": True}, 10),
        (13, 3, 2, 1, {"layout": "NCHW"}, 15),
    ],
)
@pytest.mark.parametrize("dtype", ["int8", "float32"])
def test_a_pool_copies_no_more_than_it_must(size, kernel, stride, padding, others, copied, dtype):
    given = {"layout": "NHWC", "padding": [padding] * 4, "strides": [stride] * 2} | others
    shape = (2, size, size, 17) if given["layout"] == "NHWC" else (2, 17, size, size)
    x = relax.Var("x", relax.TensorType(shape, dtype))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        call = builder.normalize(op.nn.max_pool2d(x, [kernel] * 2, **given))
        builder.emit_func_output(call)
    whole, ours = (_only(builder.get(), table) for table in (None, LEGALIZE))
    copies = [{int(n) for n in buffer.shape} for buffer in ours.body.block.alloc_buffers]
    assert copies == ([{2, copied, 17}] if copied else [])
    data = np.random.default_rng(size).integers(-128, 128, shape).astype(dtype)
    out = np.full([int(n) for n in call.ty.shape], 99, dtype)
    (_, expected), (_, actual) = run([whole, schedule(ours, X86_64).func], [data, out])
    if dtype == "float32":
        expected[expected == np.finfo(dtype).min] = -np.inf  # of padding alone
    np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_a_window_of_infinities_has_an_infinity_as_its_maximum(rank, dtype):
    pool = getattr(op.nn, f"max_pool{rank}d")
    layout = f"N{'DHW'[-rank:]}C"
    func = lowered(
        lambda x: pool(x, (3,) * rank, (2,) * rank, (1,) * 2 * rank, layout=layout),
        ((1, *(6,) * rank, 9), dtype),
    )
    data = np.full((1, *(6,) * rank, 9), -np.inf, dtype)
    data[..., -1, 3] = 1  # in the last column of windows alone
    (_, actual) = run([schedule(func, X86_64).func], [data, np.zeros((1, *(3,) * rank, 9), dtype)])[0]
    expected = np.full_like(actual, -np.inf)
    expected[..., -1, 3] = 1
    np.testing.assert_array_equal(actual, expected)


def test_a_product_of_computed_halves_is_summed_in_full():
    # More ones than binary16 can count up to, and a number that it has.
    count = 4100
    func = lowered(op.matmul, ((2, 1, count), "float16"), ((2, count, 7), "float16"))
    ones = [np.ones(shape, np.float16) for shape in ((2, 1, count), (2, count, 7))]
    outputs = run([func, schedule(func, X86_64).func], [*ones, np.zeros((2, 1, 7), np.float16)])
    for *_, actual in outputs:
        np.testing.assert_array_equal(actual, np.full((2, 1, 7), count))
