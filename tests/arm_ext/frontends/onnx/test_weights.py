# SPDX-License-Identifier: Apache-2.0
"""Models whose weights are more than protobuf, or a package, can hold."""

from functools import partial
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tvm import relax
from tvm.ir import GenericConst
from tvm_ffi import structural_walk

import arm_ext
from arm_ext.common.errors import ArmExtError, ModelError
from arm_ext.frontends.onnx.importer import import_onnx
from arm_ext.frontends.onnx.reference import reference, run_onnxruntime
from arm_ext.frontends.onnx.weights import (
    _INLINE_BYTES,
    Serialised,
    change_without_weights,
    serialise,
    sha256,
    with_constants_of,
    without_weights,
)
from arm_ext.package import load_package
from arm_ext.pipeline.selftest import run_on_host
from relay_passes.ir.calls import array_of
from tests.arm_ext.models import mlp

WIDTH = 64


def embedding(rows: int) -> onnx.ModelProto:
    """A table of `rows`, its data in table.bin, four rows of it and a head of five columns."""
    rng = np.random.default_rng(0)
    table = TensorProto(name="table", data_type=TensorProto.FLOAT, dims=[rows, WIDTH])
    table.data_location = TensorProto.EXTERNAL
    table.external_data.add(key="location", value="table.bin")
    head = numpy_helper.from_array(rng.standard_normal((WIDTH, 5)).astype(np.float32), "w")
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["e"], "embed"),
        helper.make_node("MatMul", ["e", "w"], ["y"], "head"),
    ]
    ends = [
        helper.make_tensor_value_info("ids", TensorProto.INT64, [1, 4]),
        helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4, 5]),
    ]
    graph = helper.make_graph(nodes, "embedding", ends[:1], ends[1:], [table, head])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def write(folder: Path, rows: int) -> Path:
    """The model, whose table is zeros but for its first, second and last row."""
    with (folder / "table.bin").open("wb") as file:
        file.truncate(rows * WIDTH * 4)
        for row in (0, 1, rows - 1):
            file.seek(row * WIDTH * 4)
            file.write(np.random.default_rng(row).standard_normal(WIDTH).astype(np.float32).tobytes())
    path = folder / "embedding.onnx"
    path.write_bytes(embedding(rows).SerializeToString())
    return path


def test_weights_beside_the_model_are_the_same_ones(tmp_path: Path):
    path = write(tmp_path, 50)
    proto = onnx.load(path)
    beside = serialise(proto, limit=0)
    assert list(beside.weights) == ["table"]
    assert len(beside.model) < 50 * WIDTH * 4
    ids = np.array([[0, 1, 49, 2]])
    (expected,) = run_onnxruntime(proto.SerializeToString(), [ids], integers=False)
    (found,), runtime = reference(beside, [ids])
    np.testing.assert_array_equal(found, expected)
    assert "cannot" not in runtime
    assert serialise(proto).weights == {}


def test_weights_are_those_constants_that_are_equal():
    table = np.random.default_rng(0).standard_normal((WIDTH, WIDTH)).astype(np.float32)
    other = table.copy()
    other[-1, -1] += 1
    tables = {"table": table, "half": table.astype(np.float16), "other": other}
    builder = relax.BlockBuilder()
    with builder.function("main", []):
        builder.emit_func_output(relax.Tuple([relax.const(tables[name]) for name in ("table", "half")]))
    mod = builder.get()
    found = with_constants_of(mod, Serialised(b"", tables)).weights
    assert list(found) == list(tables)
    for name, constant in zip(tables, map(array_of, mod["main"].body.body.fields), strict=False):
        assert np.shares_memory(found[name], constant)
    assert found["other"] is other


def test_an_imported_model_has_its_weights_once(tmp_path: Path):
    model = import_onnx(write(tmp_path, (_INLINE_BYTES >> 2) // WIDTH))
    assert isinstance(model.reference, partial)
    (source,) = model.reference.args
    found: list[np.ndarray] = []
    structural_walk(model.mod["main"], [(GenericConst, lambda each: found.append(array_of(each)))])
    assert any(np.shares_memory(source.weights["table"], constant) for constant in found)


@pytest.mark.parametrize("dtype", [TensorProto.FLOAT16, TensorProto.BFLOAT16])
def test_onnxruntime_takes_weights_of_each_dtype_beside_the_model_or_in_it(dtype: TensorProto.DataType):
    table = (
        np.random.default_rng(3).standard_normal((50, WIDTH)).astype(helper.tensor_dtype_to_np_dtype(dtype))
    )
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["e"]),
        helper.make_node("Cast", ["e"], ["y"], to=TensorProto.FLOAT),
    ]
    ends = [
        helper.make_tensor_value_info("ids", TensorProto.INT64, [3]),
        helper.make_tensor_value_info("y", TensorProto.FLOAT, [3, WIDTH]),
    ]
    graph = helper.make_graph(nodes, "table", ends[:1], ends[1:], [numpy_helper.from_array(table, "table")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    (found,), runtime = reference(serialise(model, limit=0), [np.array([0, 49, 7])])
    assert "cannot" not in runtime
    np.testing.assert_array_equal(found, table[[0, 49, 7]].astype(np.float32))


def test_a_change_without_weights_keeps_them(tmp_path: Path):
    proto = onnx.load(write(tmp_path, 50))
    light = without_weights(proto)
    assert [value.name for value in light.graph.input] == ["ids", "table"]
    assert [tensor.name for tensor in light.graph.initializer] == ["w"]
    before = sha256(proto)
    change_without_weights(proto, onnx.shape_inference.infer_shapes)
    assert [value.name for value in proto.graph.value_info] == ["e"]
    del proto.graph.value_info[:]
    assert sha256(proto) == before


def test_more_than_a_package_can_hold_is_refused_before_it_is_read():
    with pytest.raises(ModelError, match=r"4\.8 GiB of weights, and model\.so holds up to 4 GiB"):
        import_onnx(embedding(20_000_000))


def test_a_weight_that_does_not_fill_its_shape_is_refused():
    proto = mlp()
    proto.graph.initializer[0].data_type = TensorProto.DOUBLE
    with pytest.raises(ArmExtError):
        import_onnx(proto)


@pytest.mark.long
def test_model_of_more_than_two_gigabytes(tmp_path: Path):
    """Takes 14 GB of memory and three minutes."""
    rows = 9_200_000
    ids = np.array([[0, 1, rows - 1, 5]])
    arm_ext.compile(write(tmp_path, rows), "neoverse-n2", tmp_path / "big.armpkg", inputs=[ids])
    package = load_package(tmp_path / "big.armpkg")
    assert package.so.stat().st_size > 2**31
    selftest = package.selftest()
    (found,), (source,) = selftest.expected, selftest.source
    assert np.abs(source[0, 2]).max() > 1
    np.testing.assert_allclose(found, source, rtol=0, atol=1e-6 * np.abs(source).max())
    assert all(check.passed for check in arm_ext.run(package, check=True).checks)


def test_a_constant_of_many_numbers_keeps_them_all():
    numbers = np.arange(5000, dtype=np.float32)
    nodes = [
        helper.make_node("Constant", [], ["c"], value_floats=numbers.tolist()),
        helper.make_node("Add", ["x", "c"], ["y"]),
    ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [5000]) for name in "xy"]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    (found,) = run_on_host(import_onnx(proto).mod, [numbers])
    np.testing.assert_array_equal(found, numbers * 2)


def test_lists_of_trees_are_left_out_of_copies_and_stay_in_the_model():
    lists = {"nodes_treeids": list(range(5000)), "nodes_modes": ["LEAF"] * 5000, "nodes_values": [0.5] * 5000}
    trees = helper.make_node("TreeEnsembleRegressor", ["x"], ["y"], domain="ai.onnx.ml", n_targets=3, **lists)
    graph = helper.make_graph([trees], "g", [], [])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("ai.onnx.ml", 3)], ir_version=9)
    (light,) = without_weights(proto).graph.node
    assert {a.name: max(len(a.ints), len(a.strings), len(a.floats)) for a in light.attribute} == {
        **dict.fromkeys(lists, 1),
        "n_targets": 0,
    }
    change_without_weights(proto, lambda model: model)
    assert proto.graph.node[0] == trees
