# SPDX-License-Identifier: Apache-2.0
"""Programs that torchao's `quantize_` prepared, against torch."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("torchao")
from torchao.quantization import (
    Int8DynamicActivationInt8WeightConfig,
    Int8DynamicActivationIntxWeightConfig,
    Int8WeightOnlyConfig,
    IntxWeightOnlyConfig,
    quantize_,
)
from torchao.quantization.granularity import PerAxis, PerGroup
from torchao.quantization.quant_primitives import MappingType
from torchao.utils import unwrap_tensor_subclass

import arm_ext
from arm_ext.common.errors import ModelError, UsageError
from arm_ext.frontends.load import import_model
from arm_ext.frontends.torch import affine
from arm_ext.pipeline.selftest import module_runner

GROUP = 32
# Name → configuration, the kernels of its products, bits of a weight.
KINDS: dict[str, tuple[Callable[[], Any], str, int]] = {
    "int8": (Int8WeightOnlyConfig, "gemm_w8", 8),
    "int8 of rows": (
        lambda: IntxWeightOnlyConfig(weight_dtype=torch.int8, granularity=PerAxis(0)),
        "gemm_w8",
        8,
    ),
    "int8 of groups": (
        lambda: IntxWeightOnlyConfig(weight_dtype=torch.int8, granularity=PerGroup(GROUP)),
        "gemm_blocks_f32",
        8,
    ),
    "int4": (
        lambda: IntxWeightOnlyConfig(weight_dtype=torch.int4, granularity=PerGroup(GROUP)),
        "gemm_blocks_f32",
        4,
    ),
    "int4 with zero points": (
        lambda: IntxWeightOnlyConfig(
            weight_dtype=torch.int4, granularity=PerGroup(GROUP), mapping_type=MappingType.ASYMMETRIC
        ),
        "gemm_blocks_f32",
        4,
    ),
    "8da4w": (
        lambda: Int8DynamicActivationIntxWeightConfig(
            weight_dtype=torch.int4, weight_granularity=PerGroup(GROUP)
        ),
        "gemm_blocks_f32",
        4,
    ),
    "8da8w": (Int8DynamicActivationInt8WeightConfig, "gemm_s8_sdot", 8),
}
X = torch.randn(3, 96, generator=torch.Generator().manual_seed(1))


def quantized(name: str) -> torch.nn.Module:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(96, 64), torch.nn.ReLU(), torch.nn.Linear(64, 32)).eval()
    quantize_(model, KINDS[name][0]())
    return model


def saved(name: str, path: Path) -> Path:
    """The program in a file, with integers and scales as tensors of their own."""
    torch.export.save(torch.export.export(unwrap_tensor_subclass(quantized(name)), (X,)), path)
    return path


@pytest.mark.parametrize("name", KINDS)
def test_weights_keep_their_bits(name: str, tmp_path: Path):
    _, kernel, bits = KINDS[name]
    model = quantized(name)
    expected = model(X).detach().numpy()
    result = arm_ext.compile(saved(name, tmp_path / "m.pt2"), "cortex-a76", tmp_path / "p")
    assert kernel in {row.kernel for row in result.report.kernels}
    assert "gemm_f32" not in {row.kernel for row in result.report.kernels}
    weights, columns = 96 * 64 + 64 * 32, 64 + 32
    by_column = 4 * (4 if kernel != "gemm_blocks_f32" else 1)
    groups = 2 * 4 * weights // GROUP if kernel == "gemm_blocks_f32" else 0
    most = weights * bits // 8 + groups + by_column * columns
    assert result.package.manifest.memory.weight_bytes <= most + 1024
    # In process, too, where weights are objects of a class of their own; one of each form of calls.
    in_process = [torch.export.export(model, (X,))] if name in ("int8", "int4", "8da8w") else []
    for given in (tmp_path / "m.pt2", *in_process):
        (found,) = module_runner(import_model(given).mod)([X.numpy()])
        # A datum whose quantisation is a tie may be rounded to the other side.
        tolerance = 0.01 if name.startswith("8d") else 2e-6
        np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * np.abs(expected).max())


def test_torchao_is_not_needed(tmp_path: Path):
    """A process in which it cannot be imported reads the files, and gives the same values."""
    names = "8da4w", "8da8w"
    files = [saved(name, tmp_path / f"{name}.pt2") for name in names]
    code = (
        "import sys; sys.modules['torchao'] = None\n"
        "import numpy as np\n"
        "from arm_ext.frontends.load import import_model\n"
        "from arm_ext.pipeline.selftest import module_runner\n"
        "x = np.load(sys.argv[1])\n"
        "for file in sys.argv[2:]:\n"
        "    imported = import_model(file)\n"
        "    values = module_runner(imported.mod)([x])[0], imported.reference([x])[0][0]\n"
        "    np.savez(file + '.npz', own=values[0], torch=values[1])\n"
    )
    np.save(tmp_path / "x.npy", X.numpy())
    arguments = [str(tmp_path / "x.npy"), *map(str, files)]
    subprocess.run([sys.executable, "-c", code, *arguments], check=True, capture_output=True)
    for name, file in zip(names, files, strict=True):
        found = np.load(f"{file}.npz")
        (expected,) = module_runner(import_model(file).mod)([X.numpy()])
        np.testing.assert_array_equal(found["own"], expected)
        np.testing.assert_array_equal(found["torch"], quantized(name)(X).detach().numpy())


@pytest.mark.parametrize("mapping", ["SYMMETRIC", "SYMMETRIC_NO_CLIPPING_ERR", "ASYMMETRIC"])
@pytest.mark.parametrize(("block", "keepdim"), [([1, 96], True), ([1, 32], False), ([3, 96], False)])
def test_own_definitions_are_those_of_torchao(mapping: str, block: list[int], keepdim: bool):
    x = X * torch.tensor([[1.0], [0.0], [1e-3]]) + 0.1
    given = (x, mapping, block, torch.int8, -8, 7, None, None, torch.int8, keepdim)
    scale, zero = affine._choose(*given)
    for own, theirs in zip((scale, zero), torch.ops.torchao.choose_qparams_affine(*given), strict=True):
        assert (own.dtype, own.shape) == (theirs.dtype, theirs.shape)
        assert torch.equal(own, theirs)
    held = affine._quantize(x, block, scale, zero, torch.int8, -8, 7)
    assert torch.equal(held, torch.ops.torchao.quantize_affine(x, block, scale, zero, torch.int8, -8, 7))
    values = affine._dequantize(held, block, scale, zero, torch.int8, -8, 7)
    assert torch.equal(
        values, torch.ops.torchao.dequantize_affine(held, block, scale, zero, torch.int8, -8, 7)
    )


def test_a_file_with_weights_as_objects_is_refused(tmp_path: Path):
    file = tmp_path / "m.pt2"
    torch.export.save(torch.export.export(quantized("int4"), (X,)), file)
    with pytest.raises(UsageError, match=r"m\.pt2: not opened: .*unwrap_tensor_subclass\(model\)"):
        import_model(file)


def test_one_scale_for_a_whole_matrix_keeps_8_bits(tmp_path: Path):
    class Product(torch.nn.Module):
        def __init__(self):
            super().__init__()
            levels = torch.arange(64 * 96, dtype=torch.int32) % 255 - 127
            self.q = torch.nn.Buffer(levels.to(torch.int8).reshape(64, 96))
            self.scale = torch.nn.Buffer(torch.tensor([[0.01]]))

        def forward(self, x):
            return x @ torch.ops.torchao.dequantize_affine(self.q, [64, 96], self.scale, None, torch.int8).T

    model = Product()
    result = arm_ext.compile(torch.export.export(model, (X,)), "cortex-a76", tmp_path / "p")
    assert [row.kernel for row in result.report.kernels] == ["gemm_w8"]
    assert result.package.manifest.memory.weight_bytes < 64 * 96 + 4 * 64 + 1024
    (found,) = module_runner(import_model(torch.export.export(model, (X,))).mod)([X.numpy()])
    np.testing.assert_allclose(found, model(X).numpy(), rtol=1e-5, atol=1e-4)


def test_scales_of_bfloat16_are_refused():
    model = torch.nn.Linear(96, 64).eval().bfloat16()
    quantize_(model, KINDS["int4"][0]())
    program = torch.export.export(model, (X.bfloat16(),))
    with pytest.raises(ModelError, match=r"bfloat16: quantise a copy in float32 \(model.float\(\)"):
        import_model(program)
