# SPDX-License-Identifier: Apache-2.0
"""Add a rewrite rule and a kernel from outside of the compiler, by `compile(..., rules=..., kernels=...)`.

    python examples/custom_rule_and_kernel.py

The self-test in the package is computed without them, so `run --check` tests the rule and the kernel.
"""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from tvm import relax, tirx
from tvm.ir import Expr
from tvm.relax.dpl import is_op, wildcard
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

import arm_ext
from relay_passes import Match, Rule
from schedules.composites.workload import Workload
from schedules.cores import Core
from schedules.diagnostic import Diagnostic
from schedules.kernels.common import contract
from schedules.tir.emit import i64, kernel_function, load

# --- A rule: sqrt(x * x) → |x|. A pattern, a check that may refuse with a reason, and a rewrite.

_x = wildcard()


def check(match: Match) -> Match | Diagnostic:
    """Take float32: of integers, x * x may overflow."""
    dtype = match.values["x"].ty.dtype
    return match if dtype == "float32" else match.reject("the data are not float32", "float32", dtype)


def rewrite(match: Match) -> Expr:
    """Return the call that stands in the place of both."""
    return relax.op.abs(match.operands["x"])


ROOT_OF_SQUARE = Rule(
    name="root_of_square",
    pattern=is_op("relax.sqrt")(is_op("relax.multiply")(_x, _x)),
    parts={"x": _x},
    check=check,
    rewrite=rewrite,
)

# --- A kernel: products of rows with a single column, such as the last layer of a regression. It is an object with what
# schedules/kernels/common/contract.py lists; in the compiler a module is one.

LANES = 4  # float32 in a vector register


@dataclass(frozen=True)
class Params:
    """There is nothing to choose."""


class DotF32:
    """Rows [m, k] by a column [k, 1], a vector of sums each."""

    NAME = "dot_f32"
    Params = Params

    def matches(self, workload: Workload, core: Core) -> contract.KernelMatch | Diagnostic:
        """Take `arm.linear` of float32 with one output feature and nothing fused behind."""
        if workload.composite != "arm.linear":
            return contract.declined(
                self.NAME, "composite is no linear layer", "arm.linear", workload.composite
            )
        data, weights = workload.operands[:2]
        if len(data.shape) != 2 or weights.shape[1] != 1 or data.shape[1] % LANES:
            return contract.declined(
                self.NAME, "shape", "[m, 4 k] by [4 k, 1]", f"{data.shape}, {weights.shape}"
            )
        if workload.epilogue or data.dtype != "float32":
            return contract.declined(
                self.NAME, "an epilogue or another dtype", "none, float32", str(workload.epilogue)
            )
        return contract.KernelMatch(f"dot products of {data.shape[1]}")

    def default(self, workload: Workload, core: Core) -> Params:
        """Return the only parameters."""
        return Params()

    def candidates(self, workload: Workload, core: Core) -> tuple[Params, ...]:
        """Return what tuning may try."""
        return (Params(),)

    def estimate(self, workload: Workload, params: Params, core: Core) -> float:
        """Two loads and a multiply-add for four products, and a sum of lanes for each row."""
        rows, depth = workload.operands[0].shape
        return rows * (3 * depth / LANES + 8) / core.issue_width

    def pack(self, workload: Workload, params: Params, constants: Sequence[Any]) -> tuple[Any, ...]:
        """The column is read as it is."""
        return tuple(constants)

    def build(self, workload: Workload, params: Params) -> tirx.PrimFunc:
        """Emit the loops; the arguments are the rows, the column, and the output."""
        rows, depth = workload.operands[0].shape
        shapes = [((rows, depth), "float32"), ((depth, 1), "float32"), ((rows, 1), "float32")]
        with kernel_function("dot_f32", shapes) as function:
            data, column, output = function.buffers
            sums = T.alloc_buffer((LANES,), "float32")
            with T.serial(i64(0), i64(rows)) as row:
                T.buffer_store(
                    sums, tirx.Broadcast(tirx.FloatImm("float32", 0.0), LANES), [tirx.Ramp(0, 1, LANES)]
                )
                with T.serial(i64(0), i64(depth // LANES)) as step:
                    product = load(data, row * depth + step * LANES, LANES) * load(
                        column, step * LANES, LANES
                    )
                    total = load(sums, i64(0), LANES) + product
                    T.buffer_store(sums, total, [tirx.Ramp(0, 1, LANES)])
                lanes = [load(sums, i64(lane), 1) for lane in range(LANES)]
                T.buffer_store(output, (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]), [row])
        return function.prim_func


def model() -> onnx.ModelProto:
    """Return sqrt(x * x) times a column."""
    column = np.random.default_rng(0).standard_normal((64, 1)).astype(np.float32)
    nodes = [
        helper.make_node("Mul", ["x", "x"], ["square"], "square"),
        helper.make_node("Sqrt", ["square"], ["root"], "root"),
        helper.make_node("MatMul", ["root", "column"], ["y"], "score"),
    ]
    graph = helper.make_graph(
        nodes,
        "custom",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 64])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3, 1])],
        [numpy_helper.from_array(column, "column")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def main() -> None:
    """Compile with both, show that they were taken, and check the values."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--target", default="raspberry-pi-5")
    parser.add_argument("--board", default="virtual")
    args = parser.parse_args()

    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder, "custom.armpkg")
        result = arm_ext.compile(model(), args.target, package, rules=[ROOT_OF_SQUARE], kernels=[DotF32()])
        for kernel in result.report.kernels:
            print(f"{', '.join(kernel.sources)}: {kernel.kernel}, {kernel.reason}")  # noqa: T201
        check = arm_ext.run(result, args.board, check=True).checks[0]
    print(f"difference to the self-test: {check.expected.relative:.1e}, bound {check.bound}")  # noqa: T201
    if not check.passed or not any(kernel.kernel == DotF32.NAME for kernel in result.report.kernels):
        sys.exit("the rule or the kernel is wrong, or the kernel was not taken")


if __name__ == "__main__":
    main()
