# SPDX-License-Identifier: Apache-2.0
"""Exported programs of PyTorch against PyTorch."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from arm_ext.common.errors import ModelError, UsageError
from arm_ext.frontends.common.imported import ImportedModel
from arm_ext.frontends.common.inputs import random_inputs
from arm_ext.frontends.load import import_model
from arm_ext.frontends.torch.importer import import_torch
from arm_ext.pipeline.phases import PhaseOptions, PhaseResult, last, run_phases
from arm_ext.pipeline.selftest import run_on_host
from arm_ext.target.profiles import baseline_host
from relay_passes.ir.sources import bindings_of, sources_of, unnamed_calls
from tests.arm_ext.frontends.torch.models import MODELS, exported

# One of each kind; all are run on a board with -m long.
SAMPLE = ("detector", "gpt", "gru")

# Sums in another order, and other polynomials for exponentials, through up to twenty layers.
BOUND = 2e-6


def check(imported: ImportedModel) -> None:
    inputs = random_inputs(imported.inputs)
    expected, runtime = imported.reference(inputs)
    assert runtime.startswith("torch ")
    for found, wanted in zip(run_on_host(imported.mod, inputs), expected, strict=True):
        assert found.shape == wanted.shape
        assert np.abs(found - wanted).max() <= BOUND * np.abs(wanted).max()


@pytest.mark.parametrize("name", SAMPLE)
def test_architecture(name: str):
    imported = import_torch(exported(name))
    assert unnamed_calls(imported.mod) == []
    check(imported)


@pytest.mark.long
@pytest.mark.parametrize("name", MODELS)
def test_every_architecture(name: str):
    check(import_torch(exported(name)))


class Residual(nn.Module):
    """Two sums in the forward of a module, and operators of its own modules and of the model itself."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([nn.Sequential(nn.Linear(4, 4), nn.ReLU()) for _ in range(2)])
        self.twice = Twice()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.twice(self.blocks[1](self.blocks[0](x))).exp()


class Twice(nn.Module):
    """Two sums."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 1 + x


@pytest.mark.parametrize("stored", [False, True])
def test_nodes_are_named_by_modules(tmp_path: Path, stored: bool):
    program: torch.export.ExportedProgram | Path = torch.export.export(Residual().eval(), (torch.ones(2, 4),))
    if stored:
        torch.export.save(program, tmp_path / "m.pt2")
        program = tmp_path / "m.pt2"
    imported = import_torch(program)
    names = ["blocks.0.0/linear", "blocks.0.1/relu", "blocks.1.0/linear", "blocks.1.1/relu"]
    assert list(imported.nodes) == [*names, "twice/add", "twice/add_1", "exp"]
    assert {
        name for binding in bindings_of(imported.mod["main"]) for name in sources_of(binding.value)
    } == set(imported.nodes)


def test_nodes_and_values_have_the_programs_names():
    imported = import_torch(exported("gru"))
    assert "aten.gru.input" in imported.nodes.values()
    assert [value.name for value in imported.inputs] == ["x"]
    assert imported.outputs[0].shape == (2, 5, 3)


def test_a_file_is_found_by_content(tmp_path: Path):
    torch.export.save(exported("autoencoder"), tmp_path / "model.bin.pt2")
    (tmp_path / "model.bin.pt2").rename(tmp_path / "model")
    imported = import_model(tmp_path / "model")
    assert (imported.format, imported.name) == ("torch", "model")
    check(imported)


def test_a_damaged_file_is_refused(tmp_path: Path):
    path = tmp_path / "model.pt2"
    torch.export.save(exported("autoencoder"), path)
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b"aten.linear", b"aten.linaer"))
    with pytest.raises(UsageError, match=r"not a program that torch\.export\.save wrote"):
        import_model(path)


class Net(nn.Module):
    """A convolution and a linear layer between quantisations, as PT2E writes them."""

    def __init__(self) -> None:
        super().__init__()
        rng = np.random.default_rng(2)
        self.register_buffer("w", torch.from_numpy(rng.integers(-127, 128, (4, 3, 3, 3)).astype(np.int8)))
        self.register_buffer("scales", torch.tensor([0.01, 0.02, 0.005, 0.0125]))
        self.register_buffer("zeros", torch.zeros(4, dtype=torch.int64))
        self.register_buffer("v", torch.from_numpy(rng.integers(-127, 128, (5, 4)).astype(np.int8)))

    def forward(self, x: Tensor) -> Tensor:
        ops = torch.ops.quantized_decomposed
        w = ops.dequantize_per_channel(self.w, self.scales, self.zeros, 0, -127, 127, torch.int8)
        y = nn.functional.relu(nn.functional.conv2d(self._cut(x, 0.05, 3), w))
        y = self._cut(self._cut(y, 0.1, -128).mean((2, 3)), 0.0625, -128)
        v = ops.dequantize_per_tensor(self.v, 0.01, 0, -127, 127, torch.int8)
        return self._cut(nn.functional.linear(y, v), 0.125, 5)

    @staticmethod
    def _cut(x: Tensor, scale: float, zero: int) -> Tensor:
        ops, limits = torch.ops.quantized_decomposed, (scale, zero, -128, 127, torch.int8)
        return ops.dequantize_per_tensor(ops.quantize_per_tensor(x, *limits), *limits)


def test_a_quantised_program_computes_in_integers():
    imported = import_torch(torch.export.export(Net().eval(), (torch.randn(2, 3, 7, 9),)))
    assert imported.quantized
    options = PhaseOptions(baseline_host())
    result = last(run_phases(PhaseResult(imported.mod), options, until="integerize"))
    assert result.left_float == ()
    script = result.mod.script()
    assert "nn.conv2d" not in script or 'out_dtype="int32"' in script
    inputs = random_inputs(imported.inputs)
    expected, _ = imported.reference(inputs)
    (found,) = run_on_host(imported.mod, inputs)
    # One step of the output's scale: torch computes the sums in float, and a tie may go the other way.
    assert np.abs(found - expected[0]).max() <= 0.125
    assert np.mean(found != expected[0]) <= 0.1


class Erf(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.special.i0(x) + torch.special.i1(x) + torch.special.i0(-x)


def test_unsupported_operators_are_named():
    with pytest.raises(ModelError, match=r"aten\.i0\.default \(2x\): special_i0, special_i0_1") as error:
        import_torch(torch.export.export(Erf(), (torch.randn(3),)))
    assert "special_i1" in str(error.value)


class Scaled(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return (x @ y).relu()


def test_dynamic_dimensions_take_a_shape():
    rows = torch.export.Dim("rows", min=2, max=64)
    program = torch.export.export(
        Scaled(), (torch.randn(4, 3), torch.randn(3, 5)), dynamic_shapes=({0: rows}, None)
    )
    with pytest.raises(UsageError, match=r"x: \[.*,3\]    e\.g\. --shape x=1,3"):
        import_torch(program)
    with pytest.raises(UsageError, match=r"--shape x=7,4 does not fit the model's \[.*,3\]"):
        import_torch(program, {"x": (7, 4)})
    with pytest.raises(UsageError, match=r"names no input: z\. The inputs are: x, y"):
        import_torch(program, {"z": (7, 3)})
    imported = import_torch(program, {"x": (7, 3)})
    assert imported.outputs[0].shape == (7, 5)
    check(imported)
