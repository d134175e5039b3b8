# SPDX-License-Identifier: Apache-2.0
"""Planned modules as programs of a library."""

from pathlib import Path

import numpy as np
from onnx import TensorProto, helper, numpy_helper
from tvm.script import tirx as T  # noqa: N812 (the name that TVMScript has)

from arm_ext.api.model_source import Source
from arm_ext.clibrary.program import Copy, KernelStep, Program, TensorPlace, read_program, with_workspaces
from arm_ext.pipeline.phases import PhaseOptions
from arm_ext.shapes.given import buckets_of
from arm_ext.target.profiles import resolve
from relay_passes.memory.plan_arena import ALIGNMENT
from tests.arm_ext import models
from tests.arm_ext.clibrary.programs import Library, cc, run


def program_of(model: object) -> Program:
    (variant,), _ = Source(model).variants(buckets_of(None), PhaseOptions(resolve("arm"), serial=True))
    variant.run(None, lambda step: None)
    return read_program(variant.result.mod)


def test_kernels_write_where_the_next_reads() -> None:
    program = program_of(models.mlp())
    first, second = program.steps
    assert isinstance(first, KernelStep)
    assert isinstance(second, KernelStep)
    assert first.arguments[0] == TensorPlace("input")
    assert first.arguments[-1] in second.arguments
    assert second.arguments[-1] == TensorPlace("output")
    assert first.sources == ("fc1", "fc1/bias", "fc1/relu")
    assert program.buffers[0] == 2 * 9 * 4


def test_constants_are_aligned_and_equal_ones_stored_once() -> None:
    same = np.arange(7, dtype=np.float32)
    nodes = [
        helper.make_node("Add", ["x", "a"], ["p"], name="p"),
        helper.make_node("Softmax", ["p"], ["q"], name="q"),
        helper.make_node("Add", ["q", "b"], ["y"], name="y"),
    ]
    program = program_of(models.model(nodes, {"x": [1, 7]}, ["y"], {"a": same, "b": same}))
    assert program.weights.count(same.tobytes()) == 1
    places = [place for step in program.steps if isinstance(step, KernelStep) for place in step.arguments]
    assert all(place.offset % ALIGNMENT == 0 for place in places)


def ends() -> object:
    """Outputs that no kernel writes: an input, the same again in another shape, a constant; and one twice."""
    value = np.array([1, 2, 3], np.float32)
    nodes = [
        helper.make_node("Identity", ["x"], ["same"], name="same"),
        helper.make_node("Reshape", ["x", "shape"], ["laid"], name="lay"),
        helper.make_node("Identity", ["c"], ["constant"], name="constant"),
        helper.make_node("Sqrt", ["x"], ["root"], name="root"),
        helper.make_node("Identity", ["root"], ["root again"], name="again"),
    ]
    shapes = {"same": [2, 3], "laid": [6], "constant": [3], "root": [2, 3], "root again": [2, 3]}
    graph = helper.make_graph(
        nodes,
        "ends",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()],
        [numpy_helper.from_array(value, "c"), numpy_helper.from_array(np.array([6]), "shape")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def test_outputs_that_no_kernel_writes_are_copied(tmp_path: Path) -> None:
    model = ends()
    program = program_of(model)
    copies = [step for step in program.steps if isinstance(step, Copy)]
    assert {(copy.source.memory, copy.target.index) for copy in copies} >= {
        ("input", 0),
        ("input", 1),
        ("weights", 2),
    }
    assert sum(isinstance(step, KernelStep) for step in program.steps) == 1
    library = Library.of(model, tmp_path / "ends", "host", name="ends")
    assert "all outputs agree" in run(cc(library.selftest, tmp_path / "selftest"))
    assert library.package.manifest.library is not None
    assert library.package.manifest.library.requires == ["memcpy"]


def test_halves_are_sorted_as_integers() -> None:
    graph = helper.make_graph(
        [helper.make_node("TopK", ["x", "k"], ["values", "places"], name="best")],
        "best",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT16, [1, 9])],
        [
            helper.make_tensor_value_info("values", TensorProto.FLOAT16, [1, 2]),
            helper.make_tensor_value_info("places", TensorProto.INT64, [1, 2]),
        ],
        [numpy_helper.from_array(np.array([2]), "k")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    kernels = [step.kernel for step in program_of(model).steps if isinstance(step, KernelStep)]
    assert [name for name in kernels if name.startswith("sort")] == ["sort_int32_int64"]


@T.prim_func(s_tir=True)
def double(x: T.Buffer((8, 512), "float32"), y: T.Buffer((8, 512), "float32")):
    for i in range(8):
        row = T.alloc_buffer((512,), "float32")
        for j in range(512):
            row[j] = x[i, j] + x[i, j]
        for j in range(512):
            y[i, j] = row[j]


def test_each_call_has_workspaces_of_its_own() -> None:
    steps = tuple(
        KernelStep(name, (TensorPlace("input"), TensorPlace("output")), ()) for name in ("one", "two")
    )
    program = Program(steps, (100,), b"", {"one": double, "two": double})
    extended = with_workspaces(program)
    for number, step in enumerate(extended.steps):
        assert isinstance(step, KernelStep)
        assert step.arguments == (
            TensorPlace("input"),
            TensorPlace("output"),
            TensorPlace("buffer", index=1 + number),
        )
        assert len(extended.kernels[step.kernel].params) == 3
    assert extended.buffers == (100, 512 * 4, 512 * 4)


@T.prim_func(s_tir=True)
def shared(x: T.Buffer((8, 512), "float32"), y: T.Buffer((8, 512), "float32")):
    sums = T.alloc_buffer((8,), "float32")
    for i in range(8):
        sums[i] = x[i, 0]
    for i in T.parallel(8):
        row = T.alloc_buffer((512,), "float32")
        for j in range(512):
            row[j] = x[i, j] + sums[i]
        for j in range(512):
            y[i, j] = row[j]


def test_each_thread_has_a_workspace_in_parallel_parts_alone() -> None:
    steps = (KernelStep("shared", (TensorPlace("input"), TensorPlace("output")), ()),)
    placed = with_workspaces(Program(steps, (), b"", {"shared": shared}), threads=3)
    first, second = placed.steps
    assert isinstance(first, KernelStep)
    assert isinstance(second, KernelStep)
    assert (first.tasks, second.tasks) == (0, 8)
    assert [place.stride for place in first.arguments] == [0, 0, 0, 0]
    assert [place.stride for place in second.arguments] == [0, 0, 0, 512 * 4]
    assert placed.buffers == (8 * 4, 3 * 512 * 4)
