# SPDX-License-Identifier: Apache-2.0
"""Modules of PyTorch that are exported here."""

import logging
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import arm_ext
from arm_ext.common.errors import ModelError, UsageError
from arm_ext.frontends.load import export_module, import_model
from arm_ext.pipeline.selftest import run_on_host
from arm_ext.quantization.quantize_model import import_given


class Branch(nn.Module):
    """Two ways, chosen by a value."""

    def forward(self, x: Tensor) -> Tensor:
        if x.sum() > 0:
            return x
        return -x


def test_a_module_compiles_as_its_program_does(tmp_path: Path) -> None:
    module, x = nn.Sequential(nn.Linear(7, 5), nn.Dropout()).eval(), torch.randn(3, 7)
    package = arm_ext.compile(module, "host", tmp_path / "p", example_inputs=(x,)).package
    assert [spec.shape for spec in package.manifest.inputs] == [[3, 7]]
    selftest = package.selftest()
    assert selftest.source_runtime.startswith("torch ")
    assert np.allclose(selftest.expected[0], selftest.source[0], rtol=1e-6, atol=1e-6)


def test_training_mode_is_refused_by_the_names_of_its_parts() -> None:
    net = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Dropout(), nn.ReLU()).eval()
    net[1].train()
    with pytest.raises(UsageError, match=r"Sequential is in training mode \(1\), .* call its eval\(\) first"):
        export_module(net, (torch.randn(2, 3),))
    with pytest.raises(UsageError, match=r"\(Sequential, 0, 1 and 2 more\)"):
        export_module(net.train(), (torch.randn(2, 3),))


def test_a_failed_export_tells_why_and_where() -> None:
    found = r"cannot export Branch, .*test_export\.py line \d+: `if x\.sum\(\) > 0:`: Could not guard on data"
    with pytest.raises(ModelError, match=found):
        export_module(Branch().eval(), (torch.randn(3),))
    with pytest.raises(ModelError, match=r"cannot export Linear: .*same reduction dim"):
        export_module(nn.Linear(3, 4).eval(), (torch.randn(2, 5),))


def test_what_torch_prints_of_a_failure_is_kept_back(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ModelError):
        export_module(Branch().eval(), (torch.randn(3),))
    assert "".join(capfd.readouterr()) == ""


class Named(nn.Module):
    """Named and nested arguments and results, some of which are no tensors."""

    def forward(self, ids: Tensor, pair: dict[str, Tensor], scaled: bool = False) -> dict[str, object]:
        x = pair["a"] * ids if scaled else pair["a"]
        return {"sum": x + pair["b"], "rest": (ids + 1, None, [7])}


def test_arguments_by_name_nested_and_no_tensors() -> None:
    examples = {
        "ids": torch.tensor([2, 3, 5]),
        "pair": {"a": torch.randn(3, dtype=torch.float64), "b": torch.randn(3)},
        "scaled": True,
    }
    imported = import_model(export_module(Named().eval(), examples))
    assert [str(spec.dtype) for spec in imported.inputs] == ["int64", "float64", "float32"]
    assert [str(spec.dtype) for spec in imported.outputs] == ["float64", "int64"]
    inputs = [examples["ids"].numpy(), *(x.numpy() for x in examples["pair"].values())]
    expected, _ = imported.reference(inputs)
    for found, wanted in zip(run_on_host(imported.mod, inputs), expected, strict=True):
        assert np.array_equal(found, wanted)
    with pytest.raises(UsageError, match=r"example_inputs do not match Named\.forward"):
        export_module(Named().eval(), {"ids": torch.ones(3), "other": 1})


@pytest.mark.parametrize("examples", [(), (torch.randn(3), 2)])
def test_examples_that_forward_does_not_take_are_refused(examples: tuple[object, ...]) -> None:
    with pytest.raises(UsageError, match=r"example_inputs do not match ReLU\.forward: .*argument"):
        export_module(nn.ReLU().eval(), examples)


def test_what_is_no_module_and_a_module_without_examples_are_refused() -> None:
    with pytest.raises(
        UsageError, match=r"example_inputs are for a torch\.nn\.Module, and the model is a str"
    ):
        export_module("model.onnx", ())
    with pytest.raises(UsageError, match="must be a tuple or a dict of forward's arguments, not a Tensor"):
        export_module(nn.ReLU().eval(), torch.randn(3))  # type: ignore[arg-type]
    with pytest.raises(
        UsageError, match=r"a ReLU is neither a model file .* a torch\.nn\.Module needs example_inputs"
    ):
        import_model(nn.ReLU().eval())


def test_samples_quantise_a_module(tmp_path: Path) -> None:
    program = export_module(nn.Linear(16, 7).eval(), (torch.randn(1, 16),))
    data = np.random.default_rng(1).standard_normal((8, 1, 16), dtype=np.float32)
    np.savez(tmp_path / "samples.npz", input=data)
    assert import_given(program, samples=tmp_path / "samples.npz").quantized


def test_torch_s_log_is_kept_back_and_comes_again() -> None:
    heard = []

    class Asks(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            heard.append(logging.getLogger("torch").isEnabledFor(logging.ERROR))
            return x + 1

    export_module(Asks().eval(), (torch.randn(3),))
    assert heard
    assert not any(heard)
    assert logging.getLogger("torch").isEnabledFor(logging.ERROR)


def test_torch_leaves_nothing_in_the_folder_for_temporary_files(tmp_path: Path) -> None:
    script = (
        "import torch\n"
        "from arm_ext.frontends.load import export_module, import_model\n"
        "import_model(export_module(torch.nn.ReLU().eval(), (torch.ones(3),)))\n"
    )
    env = {name: value for name, value in os.environ.items() if name != "TORCHINDUCTOR_CACHE_DIR"}
    subprocess.run([sys.executable, "-c", script], env={**env, "TMPDIR": str(tmp_path)}, check=True)
    # onnxruntime, which comes with other front ends, leaves a file with a number.
    assert {path.name for path in tmp_path.iterdir()} <= {".ses"}
