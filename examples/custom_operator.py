# SPDX-License-Identifier: Apache-2.0
"""Add operators that arm-ext does not know. This file is a plugin, and also a program that compiles a model with it.

    python examples/custom_operator.py
    arm-ext compile model.onnx --plugin examples/custom_operator.py

One operator becomes Relax operators, the other a TensorIR function. Both are part of the self-test, so that
`run --check` compares the board with this machine; the program below also compares with numpy.
"""

import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper
from tvm import relax, tirx
from tvm.script import tirx as T  # noqa: N812 (the name that TVMScript has everywhere)

import arm_ext

# --- The plugin. A converter takes a node as `arm_ext.CustomOp` and returns its value.


def soft_shrink(op: arm_ext.CustomOp) -> relax.Expr:
    """Convert SoftShrink, which moves values towards zero by a bound b: x - clip(x, -b, b)."""
    bound = float(op.attributes.get("bound", 0.5))
    if bound < 0:
        op.refuse(f"its bound is {bound}; it is 0 or more")
    (x,) = op.inputs
    return relax.op.subtract(x, relax.op.clip(x, -bound, bound))


def running_max(op: arm_ext.CustomOp) -> relax.Expr:
    """Convert RunningMax, the cumulative maximum along each row, to a call of a TensorIR function."""
    rows, columns = op.shape(0)
    return op.call(_running_max(rows, columns), op.inputs, (rows, columns))


def _running_max(rows: int, columns: int) -> tirx.PrimFunc:
    @T.prim_func(private=True, s_tir=True)
    def function(
        x: T.Buffer((T.int64(rows), T.int64(columns)), "float32"),
        y: T.Buffer((T.int64(rows), T.int64(columns)), "float32"),
    ):
        for i in range(T.int64(rows)):
            y[i, T.int64(0)] = x[i, T.int64(0)]
            for j in range(T.int64(columns - 1)):
                y[i, j + T.int64(1)] = T.max(y[i, j], x[i, j + T.int64(1)])

    return function


CONVERTERS = {"com.example.SoftShrink": soft_shrink, "com.example.RunningMax": running_max}

# --- A model with both operators, which no other runtime here knows.


def model() -> onnx.ModelProto:
    """Return RunningMax(SoftShrink(x)) + 1."""
    nodes = [
        helper.make_node("SoftShrink", ["x"], ["shrunk"], "shrink", domain="com.example", bound=0.25),
        helper.make_node("RunningMax", ["shrunk"], ["most"], "running", domain="com.example"),
        helper.make_node("Add", ["most", "one"], ["y"], "add"),
    ]
    graph = helper.make_graph(
        nodes,
        "custom",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 64])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3, 64])],
        [helper.make_tensor("one", TensorProto.FLOAT, [], [1.0])],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.example", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def expected(x: np.ndarray) -> np.ndarray:
    """Compute the model's output in numpy."""
    return np.maximum.accumulate(x - np.clip(x, -0.25, 0.25), axis=1) + 1


def main() -> None:
    """Compile the model with this file as a plugin, run it, and check the values."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--target", default="raspberry-pi-5")
    parser.add_argument("--board", default="virtual")
    args = parser.parse_args()

    x = np.random.default_rng(0).normal(size=(3, 64)).astype(np.float32)
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder, "custom.armpkg")
        result = arm_ext.compile(model(), args.target, package, plugins=[__file__])
        for kernel in result.report.kernels:
            print(f"{', '.join(kernel.sources)}: {kernel.kernel}, {kernel.reason}")  # noqa: T201
        check = arm_ext.run(result, args.board, check=True).checks[0]
        y = arm_ext.run(result, args.board, inputs={"x": x}).outputs["y"]
    print(f"equal to the self-test: {check.passed}")  # noqa: T201
    print(f"largest difference to numpy: {np.abs(y - expected(x)).max():.1e}")  # noqa: T201
    if not check.passed or not np.allclose(y, expected(x)):
        sys.exit("the converters are wrong")


if __name__ == "__main__":
    main()
