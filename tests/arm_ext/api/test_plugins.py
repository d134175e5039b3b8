# SPDX-License-Identifier: Apache-2.0
"""Plugins: converters for each front end, rules and kernels, and messages of their errors."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from ai_edge_litert import schema_py_generated as schema
from onnx import TensorProto, helper

import arm_ext
from arm_ext import cli
from arm_ext.api.plugins import load_plugins
from arm_ext.common.errors import ModelError, UsageError
from arm_ext.frontends.common.custom import converters
from arm_ext.frontends.common.imported import ImportedModel
from arm_ext.frontends.load import import_model
from arm_ext.pipeline.selftest import run_on_host
from relay_passes.ir.sources import unnamed_calls
from tests.arm_ext.frontends.tflite.builder import TfliteBuilder
from tests.arm_ext.models import mlp

HEAD = "from tvm import relax\n"
SWIRL = f"""{HEAD}
def swirl(op):
    x = op.inputs[0]
    return relax.op.multiply(x, op.emit(relax.op.sin(x)))
"""
EXAMPLE = Path(__file__).parents[3] / "examples" / "custom_operator.py"


@pytest.fixture
def plugin(tmp_path: Path) -> Callable[[str], Path]:
    """Write a plugin file."""

    def written(text: str) -> Path:
        path = tmp_path / "my_ops.py"
        path.write_text(text)
        return path

    return written


def imported(path: Path, model: Any) -> ImportedModel:
    with converters(load_plugins([path]).converters):
        return import_model(model)


def swirl(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return x * np.sin(x)


def onnx_model(domain: str = "com.example", op: str = "Swirl", **attributes: Any) -> onnx.ModelProto:
    """A custom operator, followed by one whose expansion needs the shape of the former's output."""
    nodes = [
        helper.make_node(op, ["x"], ["s"], "one", domain=domain, **attributes),
        helper.make_node(op, ["s"], ["t"], "two", domain=domain, **attributes),
        helper.make_node("SpaceToDepth", ["t"], ["y"], "three", blocksize=2),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 2, 4, 4))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.example", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


X = np.random.default_rng(0).normal(size=(1, 2, 4, 4)).astype(np.float32)


def test_operators_of_onnx_are_converted_and_what_follows_knows_their_shapes(plugin: Callable[[str], Path]):
    path = plugin(f"{SWIRL}\nCONVERTERS = {{'com.example.Swirl': swirl}}")
    model = imported(path, onnx_model())
    assert model.nodes == {"one": "Swirl", "two": "Swirl", "three": "SpaceToDepth"}
    assert unnamed_calls(model.mod) == []
    (y,) = run_on_host(model.mod, [X])
    wide = swirl(swirl(X)).reshape(1, 2, 2, 2, 2, 2).transpose(0, 3, 5, 1, 2, 4).reshape(1, 8, 2, 2)
    np.testing.assert_allclose(y, wide, rtol=0, atol=1e-6)
    assert "cannot run it" in model.reference([X])[1]


def test_a_converter_goes_before_ours(plugin: Callable[[str], Path]):
    path = plugin(f"{SWIRL}\nCONVERTERS = {{'Neg': swirl}}")
    (y,) = run_on_host(imported(path, onnx_model("", "Neg")).mod, [X])
    assert np.abs(y).max() < np.abs(X).max() ** 2


def test_a_refusal_points_to_plugins():
    with pytest.raises(
        ModelError, match=r"com.example.Swirl \(2x\): one, two\n(.|\n)*converters of your own by --plugin"
    ):
        import_model(onnx_model())


def test_operators_of_tflite(plugin: Callable[[str], Path], tmp_path: Path):
    m = TfliteBuilder()
    m.op("ADD", [m.take("int8", 3, scale=0.1, zero=3)], [m.tensor("int8", 3, scale=0.05, zero=-7)])
    m.codes[0].customCode, m.operators[0].customOptions = "Swirl", [1, 2, 3]
    m.codes[0].builtinCode = m.codes[0].deprecatedBuiltinCode = schema.BuiltinOperator.CUSTOM
    m.operators[0].builtinOptions, m.operators[0].builtinOptionsType = None, 0
    file = tmp_path / "model.tflite"
    file.write_bytes(m.build())
    checked = SWIRL.replace(
        "    x =", "    assert op.attributes['custom_options'] == bytes([1, 2, 3])\n    x ="
    )
    model = imported(plugin(f"{checked}\nCONVERTERS = {{'CUSTOM.Swirl': swirl}}"), file)
    x = np.array([-40, 3, 41], np.int8)
    (y,) = run_on_host(model.mod, [x])
    real = swirl((x.astype(np.float32) - 3) * np.float32(0.1))
    np.testing.assert_allclose(y, np.clip(np.round(real / 0.05) - 7, -128, 127), rtol=0, atol=1)


def test_operators_of_pytorch(plugin: Callable[[str], Path]):
    @torch.library.custom_op("arm_ext_tests::swirl", mutates_args=())
    def function(x: torch.Tensor, scale: float) -> torch.Tensor:
        return x * torch.sin(x) * scale

    function.register_fake(lambda x, scale: torch.empty_like(x))

    class Module(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.relu(function(x, 2.0))

    text = f"""{SWIRL}
def scaled(op):
    return relax.op.multiply(swirl(op), relax.const(op.attributes["scale"], "float32"))

CONVERTERS = {{"arm_ext_tests.swirl.default": scaled}}
"""
    program = torch.export.export(Module().eval(), (torch.from_numpy(X),))
    model = imported(plugin(text), program)
    (y,), (expected,) = run_on_host(model.mod, [X]), model.reference([X])[0]
    np.testing.assert_allclose(y, expected, rtol=0, atol=1e-6)


def test_operators_of_stablehlo(plugin: Callable[[str], Path], tmp_path: Path):
    file = tmp_path / "model.mlir"
    file.write_text(
        "func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {\n"
        '%y = stablehlo.custom_call @swirl(%x) {backend_config = "k"} : (tensor<2x3xf32>) -> tensor<2x3xf32>\n'
        "return %y : tensor<2x3xf32>\n}"
    )
    text = SWIRL.replace("    x =", "    assert 'k' in op.attributes['backend_config']\n    x =")
    model = imported(plugin(f"{text}\nCONVERTERS = {{'stablehlo.custom_call @swirl': swirl}}"), file)
    x = X.reshape(-1)[:6].reshape(2, 3)
    np.testing.assert_allclose(run_on_host(model.mod, [x])[0], swirl(x), rtol=0, atol=1e-6)


WRONG: dict[str, tuple[str, str]] = {
    "syntax": ("x = (", r"my_ops.py, line 1: SyntaxError: '\(' was never closed"),
    "import": ("\nimport not_there", "my_ops.py, line 2: ModuleNotFoundError: No module named 'not_there'"),
    "exit": ("import sys\nsys.exit(0)", "my_ops.py, line 2: SystemExit: 0"),
    "nothing": ("x = 1", "my_ops.py: it defines none of CONVERTERS, RULES, KERNELS"),
    "kind": ("CONVERTERS = [1]", "CONVERTERS is not a dict of operator names to functions"),
    "rule": ("RULES = [1]", "an item of RULES is not a relay_passes.Rule"),
    "kernel": ("KERNELS = [1]", "a kernel of KERNELS has no NAME, Params, matches"),
}


@pytest.mark.parametrize("case", WRONG)
def test_files_that_are_no_plugins(case: str, plugin: Callable[[str], Path]):
    text, why = WRONG[case]
    with pytest.raises(UsageError, match=why):
        load_plugins([plugin(text)])


def test_what_a_plugin_prints_is_no_result(plugin: Callable[[str], Path], capsys: pytest.CaptureFixture[str]):
    load_plugins([plugin(f"{SWIRL}\nprint('loaded')\nCONVERTERS = {{'Swirl': swirl}}")])
    assert capsys.readouterr() == ("", "loaded\n")


_PRINTING = """
import os
from tvm import relax
from tvm.relax.dpl import is_op, wildcard
from relay_passes import Rule

def swirl(op):
    print("converter")
    os.write(1, b"native")
    return op.inputs[0]

def check(match):
    print("check")
    return match

class Declining:
    NAME, Params = "declining", tuple

    def matches(self, *_):
        print("kernel")
        raise ValueError("declines")

    default = candidates = estimate = pack = build = matches

x = wildcard()
one = Rule("one", is_op("relax.nn.relu")(x), {"x": x}, check, lambda match: match.operands["x"])
CONVERTERS, RULES = {"com.example.Swirl": swirl}, [one]
"""


def test_a_plugin_that_prints_leaves_json_alone(tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    model, path = tmp_path / "model.onnx", tmp_path / "prints.py"
    proto = onnx_model()
    proto.graph.node[2].CopyFrom(helper.make_node("Relu", ["t"], ["y"], "three"))
    onnx.save(proto, model)
    path.write_text(_PRINTING)
    options = ["--target", "host", "--plugin", str(path), "-o", str(tmp_path / "p"), "--json"]
    assert cli.invoke(["compile", str(model), *options]) == 0
    out, err = capfd.readouterr()
    assert isinstance(json.loads(out), dict)
    assert {"converter", "native", "check"} <= set(re.findall(r"converter|native|check", err))
    path.write_text(f"{_PRINTING}KERNELS = [Declining()]\n")
    onnx.save(mlp(), model)
    assert cli.invoke(["compile", str(model), *options, "--force"]) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert "kernel\n" in err
    assert not list(tmp_path.rglob("__pycache__"))


@pytest.mark.parametrize(
    ("result", "says"),
    [
        (
            "return None",
            r"rewrite fails at rule sine_of_sine: TypeError: it returns NoneType instead of Expr",
        ),
        ("return relax.op.sin(relax.op.sin(match.operands['x']))", r"rule sine_of_sine still applies after"),
        (
            "return relax.op.reshape(match.operands['x'], (8, 1))",
            r"rule sine_of_sine gives .* in place of",
        ),
        (
            "return relax.op.astype(match.operands['x'], 'int32')",
            r"rule sine_of_sine gives .* in place of",
        ),
    ],
)
def test_wrong_rules_are_the_plugins(plugin: Callable[[str], Path], tmp_path: Path, result: str, says: str):
    path = plugin(RULES.replace("RESULT", result))
    with pytest.raises(UsageError, match=says):
        arm_ext.compile(sines(), "host", tmp_path / "p", plugins=[path])


def test_a_rule_whose_check_is_no_match_is_the_plugins(
    plugin: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = plugin(RULES.replace("return match\n", "return True\n", 1))
    monkeypatch.chdir(path.parent)
    with pytest.raises(UsageError, match=r"check fails at rule sine_of_sine: TypeError: it returns bool"):
        arm_ext.compile(sines(), "host", tmp_path / "p", plugins=[Path(path.name)])


def test_missing_and_doubled_files(plugin: Callable[[str], Path], tmp_path: Path):
    with pytest.raises(UsageError, match=r"--plugin .*none.py: no such file"):
        load_plugins([tmp_path / "none.py"])
    path = plugin(f"{SWIRL}\nCONVERTERS = {{'Swirl': swirl}}")
    with pytest.raises(UsageError, match="also has a converter of Swirl; remove one of the two"):
        load_plugins([path, path])
    with pytest.raises(UsageError, match="expected a list of files"):
        load_plugins(str(path))


FAILING: dict[str, tuple[str, str]] = {
    "raises": (
        "return op.inputs[0] + undefined",
        r"my_ops.py, line 3 \(return op.inputs\[0\] \+ undefined\): swirl fails at com.example.Swirl node 'one': "
        "NameError: name 'undefined' is not defined",
    ),
    "exit": ("raise SystemExit(0)", r"line 3 \(raise SystemExit\(0\)\): swirl fails at .*: SystemExit: 0"),
    "nothing": ("return None", "TypeError: it returns NoneType instead of Relax expressions"),
    "two": ("return [op.inputs[0], op.inputs[0]]", "ValueError: it returns 2 values, but the node has 1"),
    "shapes": (
        "return relax.op.matmul(op.inputs[0], relax.const([[1.0] * 3] * 3, 'float32'))",
        "line 2: swirl fails at .* are not equal",
    ),
}


@pytest.mark.parametrize("case", FAILING)
def test_errors_of_a_converter_are_the_plugins(case: str, plugin: Callable[[str], Path]):
    body, why = FAILING[case]
    path = plugin(f"{HEAD}def swirl(op):\n    {body}\nCONVERTERS = {{'com.example.Swirl': swirl}}")
    with pytest.raises(UsageError, match=f"plugin .*{why}"):
        imported(path, onnx_model())


def test_a_converter_may_refuse_a_node(plugin: Callable[[str], Path]):
    text = f"{HEAD}def swirl(op):\n    op.refuse(f'its turn is {{op.attributes[\"turn\"]}}')\n"
    path = plugin(f"{text}CONVERTERS = {{'com.example.Swirl': swirl}}")
    with pytest.raises(ModelError, match=r"com.example.Swirl node 'one': its turn is left"):
        imported(path, onnx_model(turn="left"))


def test_a_value_of_another_type_than_the_model_says(plugin: Callable[[str], Path]):
    path = plugin(f"{SWIRL}\nCONVERTERS = {{'com.example.Swirl': swirl}}")
    model = onnx_model()
    model.graph.value_info.append(helper.make_tensor_value_info("s", TensorProto.FLOAT, (1, 2, 4, 3)))
    with pytest.raises(
        UsageError, match=r"gives float32\[1, 2, 4, 4\] for 's', and the model says float32\[1, 2, 4, 3\]"
    ):
        imported(path, model)


RULES = f"""{HEAD}
from tvm.relax.dpl import is_op, wildcard
from relay_passes import Rule

x = wildcard()

def check(match):
    return match

def rewrite(match):
    RESULT

RULES = [Rule("sine_of_sine", is_op("relax.sin")(is_op("relax.sin")(x)), {{"x": x}}, check, rewrite)]
"""


def sines() -> onnx.ModelProto:
    nodes = [helper.make_node("Sin", ["x"], ["s"], "one"), helper.make_node("Sin", ["s"], ["y"], "two")]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, (1, 8)) for name in "xy"]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_rules_of_a_plugin_are_taken_and_its_errors_told(plugin: Callable[[str], Path], tmp_path: Path):
    path = plugin(RULES.replace("RESULT", "return relax.op.cos(match.operands['x'])"))
    result = arm_ext.compile(sines(), "host", tmp_path / "p", plugins=[path])
    assert (
        not arm_ext.run(result, "local", check=True).checks[0].passed
    )  # the self-test is computed without it
    path = plugin(RULES.replace("RESULT", "return 1 / 0"))
    with pytest.raises(UsageError, match=_FAILS):
        arm_ext.compile(sines(), "host", tmp_path / "q", plugins=[path])


_FAILS = r"my_ops.py, line 12 .*: rewrite fails at rule sine_of_sine: ZeroDivisionError"


def test_other_verbs_have_the_rules_of_a_plugin_too(plugin: Callable[[str], Path], tmp_path: Path):
    path = plugin(RULES.replace("RESULT", "return relax.op.cos(match.operands['x'])"))
    (report,) = arm_ext.explain(sines(), "sine_of_sine", target="host", plugins=[path]).rules
    assert len(report.applied) == 1
    path = plugin(RULES.replace("RESULT", "return 1 / 0"))
    model = tmp_path / "sines.onnx"
    onnx.save(sines(), model)
    with pytest.raises(UsageError, match=_FAILS):
        arm_ext.tune_model(model, "neoverse-n2", tmp_path / "db", plugins=[path])


def test_explain_takes_the_example(tmp_path: Path):
    text = EXAMPLE.read_text()
    assert re.search(r"^CONVERTERS = ", text, re.MULTILINE)
    nodes = [helper.make_node("SoftShrink", ["x"], ["y"], "shrink", domain="com.example", bound=-1.0)]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, (1, 8)) for name in "xy"]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.example", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    with pytest.raises(ModelError, match=r"SoftShrink node 'shrink': its bound is -1.0; it is 0 or more"):
        arm_ext.explain(model, target="host", plugins=[EXAMPLE])
    del model.graph.node[0].attribute[:]
    assert arm_ext.explain(model, target="host", plugins=[EXAMPLE]).kernel_calls == 1


def test_the_command_line_tells_whose_fault_it_is(
    plugin: Callable[[str], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    model, package = tmp_path / "model.onnx", tmp_path / "p"
    onnx.save(onnx_model(), model)
    options = ["compile", str(model), "--target", "host", "-o", str(package)]
    assert (
        cli.invoke([*options, "--plugin", str(plugin(f"{SWIRL}\nCONVERTERS = {{'com.example.Swirl': 1}}"))])
        == 2
    )
    text = SWIRL.replace("x = ", "x = missing, ")
    path = plugin(f"{text}\nCONVERTERS = {{'com.example.Swirl': swirl}}")
    assert cli.invoke([*options, "--plugin", str(path)]) == 2
    assert "NameError: name 'missing' is not defined" in capsys.readouterr().err
    assert not package.exists()
    config = tmp_path / "options.yaml"
    config.write_text(
        f"plugin: {plugin(SWIRL + chr(10) + 'CONVERTERS = {' + repr('com.example.Swirl') + ': swirl}')}"
    )
    assert cli.invoke([*options, "--config", str(config)]) == 0
