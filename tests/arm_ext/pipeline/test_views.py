# SPDX-License-Identifier: Apache-2.0
import numpy as np
from onnx import helper, numpy_helper

from tests.arm_ext.frontends.onnx.test_control import Compiled
from tests.arm_ext.frontends.onnx.test_recurrent import HIDDEN, recurrent
from tests.arm_ext.models import model

RNG = np.random.default_rng(3)


def whole(*shape: int) -> np.ndarray:
    """Small integers, whose sums are exact."""
    return RNG.integers(-3, 4, shape).astype(np.float32)


def row_slices() -> Compiled:
    """Rows of a product: aligned ones for another product, unaligned ones (of 36 bytes), and a result."""
    rows = {"first": (0, 4), "last": (4, 8), "odd": (1, 3), "y": (2, 4)}
    shapes = {"w": (16, 16), "v": (16, 5), "narrow": (16, 9), "u": (9, 5)}
    weights = {name: whole(*shape) for name, shape in shapes.items()}
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"], name="product")]
    nodes += [helper.make_node("MatMul", ["x", "narrow"], ["g"], name="narrow")]
    for name, (begin, end) in rows.items():
        weights |= {f"{name}_from": np.array([begin]), f"{name}_to": np.array([end])}
        source = "g" if name == "odd" else "h"
        nodes.append(helper.make_node("Slice", [source, f"{name}_from", f"{name}_to"], [name], name=name))
    for name, right in (("first", "v"), ("last", "v"), ("odd", "u")):
        nodes.append(helper.make_node("MatMul", [name, right], [f"{name}_y"], name=f"of_{name}"))
    return Compiled.of(model(nodes, {"x": [8, 16]}, ["first_y", "last_y", "odd_y", "y"], weights))


def test_slices_of_consecutive_elements_are_views():
    compiled = row_slices()
    kernels = {kernel.sources: kernel.kernel for kernel in compiled.results["plan"].kernels}
    assert {name for (name, *_), kernel in kernels.items() if kernel == "view"} == {"first", "last"}
    compiled.check(whole(8, 16))


def test_the_outputs_of_a_recurrent_layer_are_not_copied():
    proto = recurrent("LSTM", steps=5, batch=1)
    graph = proto.graph
    del graph.output[1:]
    graph.node[0].output[:] = ["layer"]
    for name, value in (("axis", np.array([1])), ("w", RNG.standard_normal((HIDDEN, 5)).astype(np.float32))):
        graph.initializer.append(numpy_helper.from_array(value, name))
    graph.node.append(helper.make_node("Squeeze", ["layer", "axis"], ["rows"], name="squeeze"))
    graph.node.append(helper.make_node("MatMul", ["rows", "w"], ["y"], name="dense"))
    graph.output[0].CopyFrom(helper.make_tensor_value_info("y", 1, (5, 1, 5)))
    compiled = Compiled.of(proto)
    kernels = [kernel.kernel for kernel in compiled.results["plan"].kernels]
    assert sorted(kernels) == ["gemm_f32", "gemm_f32", "recurrent_f32", "view"]
    shape = [dim.dim_value for dim in graph.input[0].type.tensor_type.shape.dim]
    compiled.check(RNG.standard_normal(shape, np.float32))
