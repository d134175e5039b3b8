# SPDX-License-Identifier: Apache-2.0
"""Tensors that a TFLite model keeps: states of the package."""

from pathlib import Path

import numpy as np

from arm_ext.frontends.common.imported import ImportedModel
from arm_ext.frontends.tflite.importer import import_tflite
from tests.arm_ext.frontends.tflite.builder import TfliteBuilder
from tests.arm_ext.frontends.tflite.test_svdf import integer_svdf, svdf


def load(folder: Path, m: TfliteBuilder) -> ImportedModel:
    path = folder / "model.tflite"
    path.write_bytes(m.build())
    return import_tflite(path)


def two_layers() -> TfliteBuilder:
    """Two SVDFs of one input; the second's result is the model's."""
    m = TfliteBuilder()
    integer_svdf(m, "int16")
    integer_svdf(m, "int8", zero=9)
    return m


def test_variables_are_the_last_inputs_and_outputs(tmp_path: Path):
    m = two_layers()
    imported = load(tmp_path, m)
    kept = [m.tensors[op.inputs[-1]].name for op in m.operators]
    assert [spec.name for spec in imported.inputs[-2:]] == kept
    assert [spec.name for spec in imported.outputs[-2:]] == [f"{name}.next" for name in kept]
    assert [(s.input, s.output) for s in imported.states] == [(name, f"{name}.next") for name in kept]
    assert [str(p.name) for p in imported.mod["main"].params][-2:] == kept


def test_states_begin_with_what_stands_for_0(tmp_path: Path):
    first, second = load(tmp_path, two_layers()).states
    assert (first.initial.dtype, second.initial.dtype) == (np.int16, np.int8)
    assert not first.initial.any()
    assert (second.initial == 9).all()


def test_names_that_others_have_are_numbered(tmp_path: Path):
    m = two_layers()
    for op in m.operators:
        m.tensors[op.inputs[-1]].name = m.tensors[op.inputs[0]].name = "x"
    assert [state.input for state in load(tmp_path, m).states] == ["x:2", "x:3"]


def test_variable_that_nothing_reads_is_no_state(tmp_path: Path):
    m = TfliteBuilder()
    svdf(m, rounded=False)
    m.variable(3)
    assert len(load(tmp_path, m).states) == 1
