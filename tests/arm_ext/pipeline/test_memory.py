# SPDX-License-Identifier: Apache-2.0
import functools
from dataclasses import replace

import onnx
import pytest
from tvm import tirx

from arm_ext.api.digits import model_path
from arm_ext.frontends.onnx.importer import import_onnx
from arm_ext.pipeline import memory as measured
from arm_ext.pipeline.memory import memory_of
from arm_ext.pipeline.phases import PhaseOptions, PhaseResult, run_phases
from arm_ext.target.profiles import resolve

pytest.importorskip("torch", reason="the zoo is made with torch; pip install -e .[torch]")
import zoo
from architectures import mobilenet_v2, resnet50

# The first stages, which have the widest layers.
SHORT = {
    "mobilenet_v2": (mobilenet_v2, mobilenet_v2.STAGES[:3]),
    "resnet50": (resnet50, ((64, 2, 1), (128, 2, 2))),
}
SIZES = (64, *(pytest.param(size, marks=pytest.mark.long) for size in (96, 160, 224)))
OTHERS = (("mobilenet_v2", False), ("resnet50", True))
ABOVE_LIVE = 1.10


@functools.cache
def short(name: str, size: int, quantized: bool) -> onnx.ModelProto:
    module, stages = SHORT[name]
    inputs = {"image": zoo.Input((1, 3, size, size))}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "STAGES", stages)
        patch.setitem(zoo.ZOO, name, replace(zoo.ZOO[name], inputs=inputs))
        return zoo.quantized_model(name, short(name, size, False)) if quantized else zoo.float_model(name)


@pytest.mark.parametrize("target", ["neoverse-n2", pytest.param("cortex-a76", marks=pytest.mark.long)])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    ("name", "quantized"),
    [
        *(("mobilenet_v2", True), ("resnet50", False)),
        *(pytest.param(name, quantized, marks=pytest.mark.long) for name, quantized in OTHERS),
    ],
)
def test_peak_is_near_what_is_alive_at_the_widest_point(name: str, size: int, quantized: bool, target: str):
    imported = import_onnx(short(name, size, quantized))
    results = dict(run_phases(PhaseResult(imported.mod), PhaseOptions(resolve(target))))
    memory = memory_of(results["lower"].mod, results["plan"].mod)
    assert memory.peak_activation_bytes <= ABOVE_LIVE * memory.widest[0].live_bytes


@pytest.mark.parametrize("target", ["neoverse-n2", "cortex-a53"])
def test_the_workspace_is_the_most_of_any_kernel(target: str, monkeypatch: pytest.MonkeyPatch):
    imported = import_onnx(onnx.load(model_path()))
    results = dict(run_phases(PhaseResult(imported.mod), PhaseOptions(resolve(target))))
    planned = results["plan"].mod
    kernels = [func for func in planned.functions.values() if isinstance(func, tirx.PrimFunc)]
    each, counted = [measured._workspace(func) for func in kernels], []
    exact = measured._workspace
    monkeypatch.setattr(measured, "_workspace", lambda func: counted.append(func) or exact(func))
    assert memory_of(results["lower"].mod, planned).workspace_bytes == max(each) > 0
    assert len(counted) < len(kernels)
