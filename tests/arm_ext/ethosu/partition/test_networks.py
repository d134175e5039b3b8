# SPDX-License-Identifier: Apache-2.0
"""Whole networks as one region: exact, and by Vela's estimate as fast as their TFLite originals."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest
import tvm
from tvm.ir import Var

from arm_ext.ethosu.model import run as run_model
from arm_ext.ethosu.ops.common.operators import NpuGraph
from arm_ext.ethosu.partition.emit import emit
from arm_ext.ethosu.partition.parts import NpuPart, claim, grow
from arm_ext.ethosu.partition.read import read
from arm_ext.ethosu.tosa.reference import run_reference
from arm_ext.ethosu.vela.compiler import Io, compile_network
from arm_ext.frontends.common.inputs import random_inputs
from arm_ext.frontends.load import import_model
from arm_ext.target.npu import ACCELERATORS
from tests.fuzz.npu import integerized, values_of

MODELS = Path(__file__).parents[4].parent / "shared" / "models"

# Both end in softmax, whose operators may cost 5 %.
SLOWER = {"kws_ref_model": 0.05, "pretrainedResnet_quant": 0.05}
NPUS = ("ethos-u55-128", "ethos-u65-256", "ethos-u85-512")


@cache
def network(model: str) -> tuple[Path, NpuGraph, tvm.IRModule, dict[Var, np.ndarray]]:
    path = MODELS / f"{model}.tflite"
    if not path.is_file():
        pytest.skip(f"{path} is not there")
    imported = import_model(path)
    mod, options = integerized(imported.mod)
    graph = read(mod)
    part = whole(graph)
    return path, graph, mod, values_of(mod, graph, options, [part], random_inputs(imported.inputs))


def whole(graph: NpuGraph, npu: str = NPUS[0]) -> NpuPart:
    claimed, refused = claim(graph, ACCELERATORS[npu])
    assert not refused
    assert not graph.unsupported
    (part,) = grow(graph, claimed)
    return part


@pytest.mark.parametrize("npu", NPUS)
@pytest.mark.parametrize("model", SLOWER)
def test_a_network_is_one_exact_region(model: str, npu: str):
    path, graph, _, values = network(model)
    part = whole(graph, npu)
    region = emit(part.operators, part.inputs, part.outputs, ACCELERATORS[npu].family)
    inputs, expected = ([values[t.var] for t in tensors] for tensors in (part.inputs, part.outputs))
    ios = ([Io(t.name, t.dtype, t.shape) for t in tensors] for tensors in (part.inputs, part.outputs))
    named = dict(zip(("inputs", "outputs"), ios, strict=True))
    compiled = compile_network(region, "TOSA", ACCELERATORS[npu], **named)  # type: ignore[arg-type]
    for found in (run_reference(region, inputs), run_model(compiled.payload, inputs)):
        for actual, value in zip(found, expected, strict=True):
            np.testing.assert_array_equal(actual.reshape(value.shape), value)
    original = compile_network(path.read_bytes(), "TFLITE", ACCELERATORS[npu])
    assert compiled.cycles <= (1 + SLOWER[model]) * original.cycles
