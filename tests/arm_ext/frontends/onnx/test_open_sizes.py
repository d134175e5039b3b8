# SPDX-License-Identifier: Apache-2.0
"""Models in which the data decides a size: the node that decides it, and the two parts that a model is split into."""

import re
import shlex
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import onnx.utils
import pytest
from onnx.reference import ReferenceEvaluator

import arm_ext
from arm_ext.common.errors import ModelError
from arm_ext.frontends.common.refuse import Shapes
from arm_ext.frontends.load import with_values
from arm_ext.frontends.onnx.fixed_inputs import with_random
from arm_ext.frontends.onnx.importer import import_onnx

Model = onnx.ModelProto

_CONSTANTS = (
    "int64 zero = {0}, int64 one = {1}, int64[1] ax = {0}, int64[1] first = {1}, int64[1] last = {-1}, "
    "float half = {0.5}, int64[2] begin = {0, 2}, int64[2] end = {5, 3}"
)
_LENGTH = "[total] n = ReduceSum<keepdims=0>(d) [length] l = Cast<to=7>(n)"
_FRAMES = f"{_LENGTH} [frames] f = Range(zero, l, one)"
_KNOWN = "A package's sizes are known before it runs."
_SIGNATURE = "(float[4] d) => (float[k] z)"


def model(nodes: str, signature: str = _SIGNATURE) -> Model:
    return onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["": 17]> g {signature} <{_CONSTANTS}> {{ {nodes} }}'
    )


def refusal(proto: Model, shapes: Shapes | None = None) -> list[str]:
    with pytest.raises(ModelError) as refused:
        import_onnx(proto, shapes)
    return str(refused.value).splitlines()


_SELECTED = """[inside] m = Less(x, half) [where] i = NonZero(m) [t] j = Transpose(i) [rows] r = GatherND(w, j)
    [count] c = Cast<to=7>(r) [sum] s = ReduceSum<keepdims=0>(c, last) [back] z = Cast<to=1>(s)"""
_VIEW = """[ls] l1 = Unsqueeze(l, ax) [shape] s = Concat<axis=0>(first, l1) [view] v = Reshape(f, s)
    [out] z = Cast<to=1>(v)"""
_CROSSED = """[row] x = Cast<to=1>(f) [scale] e = Exp(d) [most] g = ReduceMax<keepdims=0>(e) [s] s = Shape(e)
    [w] w = Cast<to=1>(s) [scaled] y = Mul(x, g) [off] o = Add(y, w) [out] z = Add(o, half) [kept] q = Abs(e)"""
_BOXES = """[scores] q = Sigmoid(s) [boxes] r = Relu(b) [select] k = NonMaxSuppression(r, q, one)
    [cut] c = Slice(k, begin, end) [flat] i = Reshape(c, last) [all] t = Squeeze(r, ax) [pick] z = Gather(t, i)"""

CASES = {
    # Each was blamed on another node: ReduceSum, whose input had no known shape, and Reshape.
    "selection": (
        model(_SELECTED, "(float[1,8] x, float[1,8,3] w) => (float[k] z)"),
        "NonZero node 'where'",
        "value of 'm'",
        (["x"], ["m"], ["i", "w"], ["z"]),
        "--shape 'i=2,n<=512' --shape 'w=1,8,3'",
    ),
    "frames, reshaped": (
        model(f"{_FRAMES} {_VIEW}", "(float[4] d) => (float[a,b] z)"),
        "Range node 'frames'",
        "value of 'l'",
        (["d"], ["l", "s"], ["f", "s"], ["z"]),
        "--shape 'f=64' --value 's=…'",
    ),
    "filled": (
        model("n = Cast<to=7>(d) [fill] f = ConstantOfShape(n) z = Add(f, d)", "(float[1] d) => (float[k] z)"),
        "ConstantOfShape node 'fill'",
        "value of 'n'",
        (["d"], ["n"], ["f", "d"], ["z"]),
        "--shape 'f=n<=512' --shape 'd=1'",
    ),
    "expanded": (
        model(f"{_LENGTH} s = Unsqueeze(l, ax) [wide] w = Expand(half, s) z = Neg(w)"),
        "Expand node 'wide'",
        "value of 's'",
        (["d"], ["s"], ["w"], ["z"]),
        "--shape 'w=n<=512'",
    ),
    "compressed": (
        model("[take] t = Compress<axis=0>(x, w) [out] z = Neg(t)", "(float[4,3] x, bool[4] w) => (float[k,3] z)"),
        "Compress node 'take'",
        "value of 'w'",
        (None, None, ["t"], ["z"]),
        "--shape 't=n<=512,3'",
    ),
    "boxes": (
        model(_BOXES, "(float[1,20,4] b, float[1,2,20] s) => (float[k,4] z)"),
        "NonMaxSuppression node 'select'",
        "values of 'r', 'q'",
        (["b", "s"], ["q", "r", "t"], ["k", "t"], ["z"]),
        "--shape 'k=n<=512,3' --shape 't=20,4'",
    ),
    # What comes before frames, and what noise and the constants do not cross.
    "frames, crossed": (
        model(f"{_FRAMES} {_CROSSED}", "(float[4] d) => (float[k] z, float[4] q)"),
        "Range node 'frames'",
        "value of 'l'",
        (["d"], ["l", "e", "g", "q"], ["f", "e", "g"], ["z"]),
        "--shape 'f=n<=512' --shape 'e=4'",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_the_node_is_named_that_decides_a_size_with_the_two_parts(
    case: tuple[Model, str, str, tuple[list[str] | None, ...], str],
) -> None:
    proto, node, by, (read, passed, begins, results), options = case
    lines = refusal(proto)
    assert lines[0] == f"{node} gives a tensor whose size depends on the data (the {by}). {_KNOWN}"
    parts = {"first": (read, passed), "second": (begins, results)}
    for part, (inputs, outputs) in parts.items():
        call = f"  onnx.utils.extract_model('g.onnx', '{part}.onnx', {inputs}, {outputs})"
        assert (call in lines) == (inputs is not None)
        assert any(part in line for line in lines[:-2]) == (inputs is not None)
    assert f"  `arm-ext compile second.onnx {options}`" in lines


def test_the_parts_of_the_message_compute_what_the_model_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    proto = CASES["frames, crossed"][0]
    onnx.save(proto, tmp_path / "g.onnx")
    monkeypatch.chdir(tmp_path)
    lines = refusal(proto)
    for arguments in re.findall(r"onnx\.utils\.extract_model\((.*)\)", "\n".join(lines)):
        onnx.utils.extract_model(*eval(f"({arguments})"))
    options = shlex.split(next(line for line in lines if "arm-ext compile" in line).strip(" `"))[4::2]
    shapes = dict(option.split("=", 1) for option in options)
    first = arm_ext.compile("first.onnx", "host", "first.armpkg")
    second = arm_ext.compile("second.onnx", "host", "second.armpkg", shapes=shapes)
    for d in ([1, 2, 0.5, 4], [7, 6, 5, 3]):
        inputs = {"d": np.array(d, np.float32)}
        values = dict(arm_ext.run(first, "local", inputs=inputs).outputs)
        kept, frames = values.pop("q"), np.arange(values.pop("l"))
        expected = ReferenceEvaluator(proto).run(None, inputs)
        assert len(expected[0]) == len(frames)
        found = arm_ext.run(second, "local", inputs={"f": frames, **values}).outputs["z"]
        for array, reference in zip((found, kept), expected, strict=True):
            np.testing.assert_allclose(array, reference, rtol=1e-6)


def test_several_nodes_that_none_of_the_others_needs_are_between_the_parts():
    also = "[same] l2 = Identity(l) [rows] r = Range(zero, l2, one) [more] m = Range(zero, l2, one)"
    lines = refusal(
        model(f"{_FRAMES} {also} [sum] s = Add(f, r) [all] a = Add(s, m) [out] z = Cast<to=1>(a)")
    )
    assert "(the value of 'l'), as does Range node 'rows', Range node 'more'. " in lines[0]
    assert lines[1] == "Split the model, and let your program compute these nodes between the two parts:"
    assert "'second.onnx', ['f', 'r', 'm'], ['z']" in lines[3]
    assert "n is any length up to 512, the same in all places; where sizes differ, give numbers;" in lines[-1]


def test_long_lists_are_cut():
    values = "".join(f"[e{k}] e{k} = Exp(d) [g{k}] g{k} = ReduceMax<keepdims=0>(e{k}) " for k in range(60))
    scaled = "".join(f"x{k + 1} = Mul(x{k}, g{k}) " for k in range(60))
    text = "\n".join(refusal(model(f"{_FRAMES} {values} x0 = Cast<to=1>(f) {scaled} z = Neg(x60)")))
    assert "'g37', 'g38' and 21 more])" in text


def test_inputs_of_a_few_integers_may_become_constants():
    proto = model("[fill] f = ConstantOfShape(n) [out] z = Neg(f)", "(int64[1] n) => (float[k] z)")
    assert refusal(proto)[1:3] == [
        "If 'n' is the same at each run, make it a constant, by --value NAME=NUMBERS.",
        "Otherwise cut the node off the model, for your program to compute:",
    ]
    assert import_onnx(with_values(proto, {"n": 3})).outputs[0].shape == (3,)


def test_an_input_that_is_a_constant_by_value_is_one_in_the_parts():
    proto = model(
        f"{_FRAMES} [row] x = Cast<to=1>(f) [out] z = Mul(x, s)", "(float[4] d, float s) => (float[k] z)"
    )
    lines = refusal(with_values(proto, {"s": 2}))
    assert "  onnx.utils.extract_model('g.onnx', 'second.onnx', ['f', 's'], ['z'])" in lines
    assert "  `arm-ext compile second.onnx --shape 'f=n<=512' --value 's=…'`" in lines


def test_a_node_inside_a_branch_is_named():
    branch = "t () => (int64 a) { [where] i = NonZero(y) [sum] a = ReduceSum<keepdims=0>(i) }"
    other = "e () => (int64 b) { b = Constant<value = int64 {3}>() }"
    choice = f"[relu] y = Relu(d) [if] z = If(c) <then_branch = {branch}, else_branch = {other}>"
    lines = refusal(model(choice, "(float[4] d, bool c) => (int64 z)"))
    assert lines[0].startswith(
        "NonZero node 'where' gives a tensor whose size depends on the data (the value of 'y')."
    )
    assert (
        lines[-1] == "The node is inside a branch or a loop: move it out, or let your program compute that."
    )


_IF = """[if] y = If(c) <then_branch = t () => (float[4] a) { a = Relu(d) },
    else_branch = e () => (float[4] b) { b = Neg(d) }>"""

COMPILED = {
    # A shape decides the size, and a constant.
    "by shape": model("[s] s = Shape(d) [n] n = Squeeze(s, ax) [f] f = Range(zero, n, one) z = Cast<to=1>(f)"),
    "constant": model("[c] c = Constant<value = bool[4] {1, 0, 1, 1}>() [take] z = Compress<axis=0>(d, c)"),
    # Only the run decides on the branch, and both have one shape.
    "behind a branch": model(
        f"{_IF} [s] s = Shape(y) [v] v = Reshape(d, s) [out] z = Add(v, y)", "(float[4] d, bool c) => (float[k] z)"
    ),
    # No output needs it.
    "unused": model(f"{_FRAMES} [out] z = Relu(d)"),
}  # fmt: skip


@pytest.mark.parametrize("proto", COMPILED.values(), ids=COMPILED.keys())
def test_sizes_that_the_data_does_not_decide_are_taken(proto: Model) -> None:
    assert import_onnx(proto).outputs[0].shape in ((4,), (3,))


def test_noise_of_such_a_size_is_refused_by_the_node_that_decides_it():
    noisy = model(f"{_FRAMES} [row] x = Cast<to=1>(f) [noise] r = RandomNormalLike(x) [out] z = Add(x, r)")
    lines = refusal(with_random(noisy, "zeros"))
    assert lines[0].startswith(
        "Range node 'frames' gives a tensor whose size depends on the data (the value of 'l')."
    )
    assert "  onnx.utils.extract_model('g.onnx', 'second.onnx', ['f'], ['z'])" in lines


def masked(x: str, y: str, bound: str) -> str:
    """Nodes of y = x; y[y > bound] = -exp(y[y > bound]), as a boolean index is exported."""
    return f"""{y}m = Greater({x}, {bound}) [{y}where] {y}i = NonZero({y}m) {y}t = Transpose({y}i)
        {y}g = GatherND({x}, {y}t) {y}e = Exp({y}g) {y}n = Neg({y}e) {y} = ScatterND({x}, {y}t, {y}n)"""


def test_what_would_take_many_splits_is_one_file_between_the_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the splines of VITS' duration predictor, where a mask follows from what is behind the mask before it."""
    nodes = (
        f"a = Mul(d, half) {masked('a', 'b', 'half')} c = Mul(b, b) {masked('c', 'f', 'half')} z = Add(f, a)"
    )
    proto = model(nodes, "(float[2, 31] d) => (float[2, 31] z)")
    onnx.save(proto, tmp_path / "first.onnx")  # a part of another model may be split, too
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelError) as refused:
        import_onnx(Path("first.onnx"))
    lines = str(refused.value).splitlines()
    assert lines[0].startswith("NonZero node 'bwhere' gives a tensor")
    assert lines[2] == "1 more such node depends on it."
    assert "compute all from the node to ScatterND node 'f' between the two parts:" in lines[3]
    for arguments in re.findall(r"onnx\.utils\.extract_model\((.*)\)", "\n".join(lines)):
        onnx.utils.extract_model(*eval(f"({arguments})"))
    d = np.random.default_rng(1).standard_normal((2, 31), np.float32)
    values = {"d": d}
    for part in ("first_first", "first_between", "first_second"):
        found = onnx.load(f"{part}.onnx")
        inputs = {value.name: values[value.name] for value in found.graph.input}
        outputs = ReferenceEvaluator(found).run(None, inputs)
        values |= {value.name: array for value, array in zip(found.graph.output, outputs, strict=True)}
        if part != "first_between":
            import_onnx(found)
    np.testing.assert_array_equal(values["z"], ReferenceEvaluator(proto).run(None, {"d": d})[0])


def test_noise_in_the_second_part_is_told_in_its_command() -> None:
    drawn = "[row] x = Cast<to=1>(f) [sum] s = ReduceSum<keepdims=0>(x) [noise] r = RandomNormalLike(s)"
    noisy = model(f"{_FRAMES} {drawn} [out] z = Add(x, r)")
    assert "  `arm-ext compile second.onnx --shape 'f=n<=512' --random zeros`" in refusal(
        with_random(noisy, "zeros")
    )
