# SPDX-License-Identifier: Apache-2.0
"""Compile a quantised model for an Ethos-U65 with a layer that it cannot run, and run it where there is no NPU.

    python examples/ethos_u.py

The package gives the same bytes with and without the NPU. Needs `pip install -e '.[npu]'`.
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import arm_ext


def float_model() -> onnx.ModelProto:
    """Return a convolution, a layer norm, which has no form on the NPU, and another convolution."""
    rng = np.random.default_rng(0)
    weights = {
        "first": rng.standard_normal((32, 16, 3, 3)).astype(np.float32) / 12,
        "second": rng.standard_normal((32, 32, 3, 3)).astype(np.float32) / 17,
        "gain": np.ones(16, np.float32),
    }
    nodes = [
        helper.make_node("Conv", ["x", "first"], ["a"], "conv1", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["b"], "relu1"),
        helper.make_node("LayerNormalization", ["b", "gain"], ["c"], "norm"),
        helper.make_node("Conv", ["c", "second"], ["y"], "conv2", pads=[1, 1, 1, 1]),
    ]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 16, 16, 16])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 32, 16, 16])],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def main() -> None:
    """Compile, say what runs where and why, check the payloads, and run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--npu", default="ethos-u65-256")
    parser.add_argument("--target", default="cortex-a55")
    parser.add_argument("--board", default="virtual")
    args = parser.parse_args()

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        onnx.save(float_model(), folder / "net.onnx")
        samples = np.random.default_rng(1).standard_normal((8, 16, 16, 16)).astype(np.float32)
        np.savez(folder / "samples.npz", x=samples)
        # These kinds go to the NPU whatever it costs; by default a region also has to be faster there.
        npu = arm_ext.NpuOptions(args.npu, npu_ops=("conv2d", "LayerNormalization"))
        result = arm_ext.compile(
            folder / "net.onnx", args.target, folder / "net.armpkg", quantize=folder / "samples.npz", npu=npu
        )
        assert result.report.npu is not None
        print(result.report.npu.summary())  # noqa: T201
        for row in result.report.nodes:
            if row.source in ("conv1", "norm", "conv2"):
                print(f"  {row.source}: {row.where}, {row.reason.partition(';')[0]}")  # noqa: T201
        verdict = arm_ext.verify(result)
        print("payloads compute what they should:", verdict.equal)  # noqa: T201
        run = arm_ext.run(result, args.board, check=True)
        assert run.npu is not None
        print(run.npu.text())  # noqa: T201
        print("equal to the self-test:", all(check.passed for check in run.checks))  # noqa: T201


if __name__ == "__main__":
    main()
