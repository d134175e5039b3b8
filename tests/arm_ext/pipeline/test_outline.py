# SPDX-License-Identifier: Apache-2.0
import pytest
import tvm
from tvm import tirx

from arm_ext.api import digits
from arm_ext.frontends.onnx.importer import import_onnx
from arm_ext.pipeline.memory import memory_of
from arm_ext.pipeline.outline import BODY, Outlines
from arm_ext.pipeline.phases import PhaseOptions, PhaseResult, run_phases
from arm_ext.target.profiles import resolve
from tests.arm_ext.models import residual_cnn

MODELS = {
    "residual_cnn": residual_cnn,
    "digits_fp32": lambda: digits.model_path("fp32"),
    "digits_int8": lambda: digits.model_path("int8"),
}


def _kernels(mod: tvm.IRModule) -> dict[str, tirx.PrimFunc]:
    return {g.name_hint: func for g, func in mod.functions_items() if isinstance(func, tirx.PrimFunc)}


@pytest.mark.parametrize("target", ["neoverse-n2", "cortex-a53"])
@pytest.mark.parametrize("name", MODELS)
def test_completed_kernels_are_those_of_phases_without_outlines(name: str, target: str):
    start = PhaseResult(import_onnx(MODELS[name]()).mod)
    options = PhaseOptions(resolve(target))
    whole = dict(run_phases(start, options))
    for outlines in (Outlines(), Outlines()):  # the second finds the first one's in the cache
        found = dict(run_phases(start, PhaseOptions(resolve(target), outlines=outlines)))
        kernels, expected = _kernels(found["plan"].mod), _kernels(whole["plan"].mod)
        assert kernels.keys() == expected.keys()
        assert any(BODY in func.attrs for func in kernels.values())
        for symbol, func in kernels.items():
            tvm.ir.assert_structural_equal(outlines.completed(func), expected[symbol])
        memory = memory_of(found["lower"].mod, found["plan"].mod, outlines)
        assert memory == memory_of(whole["lower"].mod, whole["plan"].mod)


def test_an_outline_holds_what_is_allocated_and_no_more():
    outlines = Outlines()
    options = PhaseOptions(resolve("neoverse-n2"), outlines=outlines)
    results = dict(run_phases(PhaseResult(import_onnx(digits.model_path("fp32")).mod), options))
    outlined = [func for func in _kernels(results["plan"].mod).values() if BODY in func.attrs]
    assert outlined
    for func in outlined:
        assert 10 * len(tvm.ir.save_json(func)) < len(tvm.ir.save_json(outlines.completed(func)))
