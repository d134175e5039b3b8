# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from arm_ext.common.errors import InternalError
from arm_ext.ethosu.partition.emit import emit
from arm_ext.ethosu.partition.parts import grow
from arm_ext.ethosu.tosa.common import ONE, rescale
from arm_ext.ethosu.tosa.graph import TosaGraph
from arm_ext.ethosu.tosa.reference import run_reference
from tests.arm_ext.ethosu.partition.divided import prepared


def test_it_computes_and_prints_nothing(capfd: pytest.CaptureFixture[str]):
    graph = prepared("whole").graph
    (part,) = grow(graph, graph.operators)
    x = np.zeros(part.inputs[0].shape, np.int8)
    (y,) = run_reference(emit(part.operators, part.inputs, part.outputs, "u55"), [x])
    assert (y.shape, y.dtype) == (part.outputs[0].shape, np.int8)
    assert capfd.readouterr().out == ""


def test_what_the_specification_leaves_open_is_an_error(monkeypatch: pytest.MonkeyPatch):
    # Where there is a debugger, the reference model attaches it to this process, which takes half a minute.
    monkeypatch.setenv("PATH", "")
    graph = TosaGraph("u55")
    x = graph.input((1, 1), "int32")
    # A zero point of int32 must be 0.
    graph.output(rescale(graph, x, ONE, "int8", input_zero_point=3))
    with pytest.raises(InternalError, match="TOSA's reference model says TOSA_"):
        run_reference(graph.serialize(), [np.ones((1, 1), np.int32)])
