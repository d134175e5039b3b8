# SPDX-License-Identifier: Apache-2.0
"""Programs that PT2E quantised, beside the same networks quantised in ONNX."""

import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
import zoo
from torch import nn
from tvm import relax

from arm_ext.frontends.common.imported import ImportedModel
from arm_ext.frontends.load import import_model
from arm_ext.frontends.torch.importer import import_torch
from arm_ext.pipeline.phases import PhaseOptions, PhaseResult, last, run_phases
from arm_ext.pipeline.selftest import run_on_host
from arm_ext.target.profiles import resolve
from tests.arm_ext.frontends.torch.quantizer import Dynamic, quantized

# Name → most steps of the output's scale. torch computes products in float: on some processor a tie goes the other way,
# which all layers behind it spread. One unit of MobileNetV2's first layer made 3 steps of its logits.
MEMBERS = [
    ("dscnn", 1),
    pytest.param("mobilenet_v2", 4, marks=pytest.mark.long),
    pytest.param("bert_tiny", 1, marks=pytest.mark.long),
]
# What front ends take apart alike: the rest of BERT's, such as GELU, ONNX has as several operators.
PARTS = ("gemm", "depthwise", "matmul", "norm", "softmax", "pool")
IMAGE = 6


def kernels(imported: ImportedModel) -> tuple[Counter[str], set[str]]:
    """How many calls each kernel has, and what operators stay in float."""
    options = PhaseOptions(resolve("neoverse-n2", "-sve,-sve2"))
    lowered = last(run_phases(PhaseResult(imported.mod), options, until="lower"))
    kernel_of = {choice.symbol: choice.kernel for choice in lowered.kernels}
    found: Counter[str] = Counter()

    def visit(call: relax.Expr) -> None:
        if isinstance(call, relax.Call) and call.op.name == "relax.call_tir":
            kernel = kernel_of[call.args[0].name_hint]
            found.update([kernel] if kernel.startswith(PARTS) else [])

    relax.analysis.post_order_visit(
        lowered.mod["main"], lambda call: visit(call) if hasattr(call, "op") else None
    )
    return found, {call.operator for call in lowered.left_float}


@pytest.mark.parametrize(("name", "steps"), MEMBERS)
def test_it_becomes_the_integer_graph_of_its_twin(name: str, steps: int) -> None:
    program = quantized(*zoo.network(name))
    imported = import_torch(program)
    (found, left), (wanted, twins_left) = (
        kernels(model) for model in (imported, import_model(zoo.quantized_model(name, zoo.float_model(name))))
    )
    assert found == wanted
    assert found.total() > 10
    assert left <= twins_left
    inputs = [next(iter(array)) for array in zoo.ZOO[name].samples(1, IMAGE).values()]
    expected, runtime = imported.reference(inputs)
    assert runtime.startswith("torch ")
    *_, last = (node for node in program.graph.nodes if "dequantize_per_tensor" in str(node.target))
    for ours, theirs in zip(run_on_host(imported.mod, inputs), expected, strict=True):
        assert np.abs(ours - theirs).max() <= (steps + 0.01) * last.args[1]


def test_linear_layers_of_data_that_are_quantised_at_run_time_are_products_of_integers() -> None:
    layers = nn.Conv2d(3, 5, 3), nn.Flatten(2), nn.Linear(35, 17), nn.ReLU(), nn.Linear(17, 9, bias=False)
    imported = import_torch(quantized(nn.Sequential(*layers).eval(), [(torch.randn(2, 3, 9, 7),)], Dynamic()))
    # Weights of the convolution become float, as its data is.
    assert kernels(imported)[0] == {"gemm_s8_mmla": 2, "gemm_f32": 1}
    # All above 0, which the range is widened to hold.
    x = np.random.default_rng(3).uniform(1, 2, (2, 3, 9, 7)).astype(np.float32)
    (found,), ((wanted,), _) = run_on_host(imported.mod, [x]), imported.reference([x])
    # Sums in another order; all data of a layer would differ by a step, had a scale or zero point another value.
    assert np.abs(found - wanted).max() <= 2e-6 * np.abs(wanted).max()


@pytest.mark.long  # another process, which loads torch and TVM again
def test_a_quantised_file_is_read_without_torchao(tmp_path: Path) -> None:
    path = tmp_path / "model.pt2"
    torch.export.save(quantized(nn.Linear(7, 5).eval(), [(torch.randn(3, 7),)]), path)
    read = "import sys; from arm_ext.frontends.load import import_model; m = import_model(sys.argv[1])"
    told = "print(m.quantized, 'torchao' in sys.modules)"
    command = [sys.executable, "-c", f"{read}; {told}", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "True False\n"
