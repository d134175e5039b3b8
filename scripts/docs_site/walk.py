# SPDX-License-Identifier: Apache-2.0
"""Write the TVMScript of docs/walk.md: what each phase makes of one quantised convolution.

    python scripts/docs_site/walk.py

A code block of the page that follows `<!-- phase: NAME: FUNCTION, FUNCTION -->` gets these functions of the module
after the phase, formatted, and with sizes without their type.
"""

import ast
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import arm_ext

PAGE = Path(__file__).parents[2] / "docs/walk.md"
TARGET = "cortex-a76"
WIDTH = 110
BLOCK = re.compile(r"(<!-- phase: (\w+): ([\w, ]+) -->\n```python\n).*?(^```$)", re.DOTALL | re.MULTILINE)


def model() -> onnx.ModelProto:
    """Return a convolution and a ReLU of 8 bits in QDQ form."""
    rng = np.random.default_rng(0)
    values = {
        "scale": np.float32(0.03125),
        "out_scale": np.float32(0.0625),
        "zero": np.int8(0),
        "out_zero": np.int8(-128),
        "weight": rng.integers(-127, 128, (16, 8, 3, 3), np.int8),
        "weight_scale": np.full(16, 0.0078125, np.float32),
        "weight_zero": np.zeros(16, np.int8),
        "bias": rng.standard_normal(16).astype(np.float32),
    }
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["x_q"], "quantize_x"),
        helper.make_node("DequantizeLinear", ["x_q", "scale", "zero"], ["x_f"], "dequantize_x"),
        helper.make_node(
            "DequantizeLinear",
            ["weight", "weight_scale", "weight_zero"],
            ["w_f"],
            "dequantize_weight",
            axis=0,
        ),
        helper.make_node("Conv", ["x_f", "w_f", "bias"], ["conv"], "conv", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["conv"], ["relu"], "relu"),
        helper.make_node("QuantizeLinear", ["relu", "out_scale", "out_zero"], ["y_q"], "quantize_y"),
        helper.make_node("DequantizeLinear", ["y_q", "out_scale", "out_zero"], ["y"], "dequantize_y"),
    ]
    graph = helper.make_graph(
        nodes,
        "walk",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 8, 6, 6])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 16, 6, 6])],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in values.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


def scripts() -> dict[str, str]:
    """Return the module after each phase, by the phase's name."""
    with tempfile.TemporaryDirectory() as folder:
        dump = Path(folder, "dump")
        arm_ext.compile(model(), TARGET, Path(folder, "walk.armpkg"), dump_phases=dump)
        return {path.stem.partition("-")[2]: path.read_text() for path in sorted(dump.glob("*.py"))}


def updated(page: str) -> str:
    """Return the page with code blocks of the modules as the phases make them now.

    Raises a KeyError for a phase or function that does not exist.
    """
    found = scripts()
    return BLOCK.sub(lambda m: m[1] + _functions(found[m[2]], m[3].split(", ")) + m[4], page)


def _functions(script: str, names: list[str]) -> str:
    lines = script.splitlines()
    (module,) = (node for node in ast.parse(script).body if isinstance(node, ast.ClassDef))
    where = {node.name: node for node in module.body if isinstance(node, ast.FunctionDef)}
    return "\n\n".join(_function(lines, where[name]) for name in names)


def _function(lines: list[str], node: ast.FunctionDef) -> str:
    first = node.decorator_list[0].lineno - 1
    taken = [line.removeprefix("    ") for line in lines[first : node.end_lineno]]
    text = re.sub(r"T\.int64\((-?\d+)\)", r"\1", "\n".join(taken))
    ruff = [sys.executable, "-m", "ruff", "format", "--no-cache", "--line-length", str(WIDTH), "-"]
    return subprocess.run(ruff, input=text, capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    PAGE.write_text(updated(PAGE.read_text()))
