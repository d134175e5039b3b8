# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import TensorProto, helper

import arm_ext
from arm_ext.common.errors import ModelError, UsageError
from arm_ext.frontends.onnx.fixed_inputs import with_random
from arm_ext.frontends.onnx.importer import import_onnx
from arm_ext.frontends.onnx.random import draw
from arm_ext.pipeline.selftest import run_on_host

ROW = np.linspace(-1, 1, 62, dtype=np.float32).reshape(2, 31)


def noisy(*, rows: int | str = 2) -> onnx.ModelProto:
    """x plus noise, as speech synthesis draws it: normal numbers of x's shape, and uniform ones of a fixed shape."""
    nodes = [
        helper.make_node("RandomNormalLike", ["x"], ["noise"], name="normal", mean=2.0, scale=0.5),
        helper.make_node("RandomUniform", [], ["shift"], name="uniform", shape=[1, 31], low=-3.0, high=-1.0),
        helper.make_node("Add", ["x", "noise"], ["sum"]),
        helper.make_node("Add", ["sum", "shift"], ["y"]),
    ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [rows, 31]) for name in "xy"]
    graph = helper.make_graph(nodes, "noisy", ends[:1], ends[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def test_the_generator_is_as_defined():
    # Words of Philox 4x64-10 with the key (3, 1), which numpy does not change from release to release.
    words = np.random.Philox(key=np.array([3, 1], np.uint64)).random_raw(4)
    u = [int(word >> np.uint64(40)) / 2**24 for word in words]
    assert draw("uniform", (2,), 3, 1).tolist() == [u[0], u[2]]
    normal = [np.sqrt(-2 * np.log1p(-u[k])) * np.cos(2 * np.pi * u[k + 1]) for k in (0, 2)]
    np.testing.assert_allclose(draw("normal", (2,), 3, 1), normal, rtol=2**-23)
    many = draw("normal", (100_000,), 0, 0)
    assert np.isfinite(many).all()
    assert abs(many.mean()) < 0.02
    assert abs(many.std() - 1) < 0.02
    assert not np.array_equal(draw("normal", (9,), 0, 0), draw("normal", (9,), 0, 1))


def test_the_numbers_of_a_seed_are_the_same_for_us_and_for_the_sources_runtime():
    imported = import_onnx(with_random(noisy(), "seed=3"))
    (found,) = run_on_host(imported.mod, [ROW])
    noise = draw("normal", (2, 31), 3, 0) * np.float32(0.5) + np.float32(2)
    shift = np.float32(-3) + draw("uniform", (1, 31), 3, 1) * np.float32(2)
    np.testing.assert_allclose(found, ROW + noise + shift, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(found, imported.reference([ROW])[0][0], rtol=1e-6, atol=1e-6)


def test_zeros():
    (found,) = run_on_host(import_onnx(with_random(noisy(rows="n"), "zeros"), {"x": (2, 31)}).mod, [ROW])
    np.testing.assert_array_equal(found, ROW)


def test_inputs_in_their_place():
    imported = import_onnx(with_random(noisy(rows="n"), "input"), {"x": (2, 31), "noise": (2, 31)})
    assert [(spec.name, spec.shape) for spec in imported.inputs] == [
        ("x", (2, 31)),
        ("noise", (2, 31)),
        ("shift", (1, 31)),
    ]
    noise, shift = np.ones((2, 31), np.float32), np.full((1, 31), 5, np.float32)
    (found,) = run_on_host(imported.mod, [ROW, noise, shift])
    np.testing.assert_allclose(found, ROW + 6, rtol=1e-6)


def synthesis() -> onnx.ModelProto:
    """x and two rows of noise, whose sizes a shape decides, as torch.randn(x.size(0), 2, x.size(2)) is exported."""
    return onnx.parser.parse_model("""<ir_version: 8, opset_import: ["": 17]> g (float[1,3,n] x) => (float[1,a,n] z)
    <int64[1] two = {2}, int64 i0 = {0}, int64 i2 = {2}, int64[1] ax = {0}> {
      s = Shape(x) a0 = Gather(s, i0) a2 = Gather(s, i2) b0 = Unsqueeze(a0, ax) b2 = Unsqueeze(a2, ax)
      c = Concat<axis=0>(b0, two, b2) o = ConstantOfShape(c) [noise] r = RandomNormalLike(o)
      z = Concat<axis=1>(x, r) }""")


def test_shapes_that_are_given_decide_the_shape_of_an_input(tmp_path: Path):
    made = arm_ext.compile(synthesis(), "host", tmp_path / "p", shapes={"x": [1, 3, 8]}, random="input")
    assert [(spec.name, spec.shape) for spec in made.package.manifest.inputs] == [
        ("x", [1, 3, 8]),
        ("r", [1, 2, 8]),
    ]


@pytest.mark.parametrize(
    ("size", "listed"),
    [
        ("n<=16", "r: [1,2,n<=16]    e.g. shapes 'r=1,2,n<=16'"),
        ([8, 16], "r: [1,2,{8,16}]    e.g. shapes 'r=1,2,{8,16}'"),
    ],
)
def test_an_input_of_several_sizes_is_asked_for_in_the_form_to_give(
    tmp_path: Path, size: str | list[int], listed: str
):
    with pytest.raises(UsageError) as refused:
        arm_ext.compile(synthesis(), "host", tmp_path / "p", shapes={"x": [1, 3, size]}, random="input")
    assert str(refused.value).splitlines()[1:] == [f"  {listed}"]


def test_the_model_s_own_inputs_are_asked_for_first(tmp_path: Path):
    with pytest.raises(UsageError) as refused:
        arm_ext.compile(synthesis(), "host", tmp_path / "p", random="input")
    assert str(refused.value).splitlines()[1:] == ["  x: [1,3,n]    e.g. shapes x=1,3,1"]
    with pytest.raises(UsageError, match=r"names no input: y\. The inputs are: x, r"):
        arm_ext.compile(synthesis(), "host", tmp_path / "p", shapes={"y": [1]}, random="input")


@pytest.mark.parametrize("shape", ["1,3,n<=16", "n,3,4"])
def test_numbers_of_a_seed_have_one_size(tmp_path: Path, shape: str):
    model = synthesis()
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "b"
    with pytest.raises(
        UsageError,
        match=r"RandomNormalLike node 'noise' depends on 'n' in shapes.*--random zeros or input",
    ):
        arm_ext.compile(model, "host", tmp_path / "p", shapes={"x": shape}, random="seed=0")


def test_what_is_refused():
    with pytest.raises(ModelError, match=r"draws no random numbers: choose by `compile --random seed=N`"):
        import_onnx(noisy())
    for choice in ("seed", "seed=-1", "ones"):
        with pytest.raises(UsageError, match=f"--random {choice}: expected seed=NUMBER, zeros or input"):
            with_random(noisy(), choice)
    node = helper.make_node("Relu", ["x"], ["y"])
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [3]) for name in "xy"]
    plain = helper.make_model(helper.make_graph([node], "g", ends[:1], ends[1:]))
    with pytest.raises(UsageError, match="has no operator that draws random numbers"):
        with_random(plain, "zeros")


@pytest.mark.parametrize("text", ["", "seed", "1", "9" * 40 + " 0", "zeros -1"])
def test_what_a_file_says_in_the_place_of_a_choice_is_none(text: str):
    proto = noisy()
    proto.graph.node[0].metadata_props.add(key="arm_ext.random", value=text)
    with pytest.raises(ModelError, match="draws no random numbers"):
        import_onnx(proto)


@pytest.mark.parametrize("text", ["", "{", "3", '["a", 3]', '{"a": 1}'])
def test_what_a_file_says_in_the_place_of_labels_are_none(text: str):
    proto = with_random(noisy(), "zeros")
    proto.graph.output[0].metadata_props.add(key="arm_ext.labels", value=text)
    assert import_onnx(proto).outputs[0].labels == ()
