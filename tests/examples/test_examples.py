# SPDX-License-Identifier: Apache-2.0
"""Each example runs, and shows what it is for."""

import re
import runpy
from pathlib import Path

import pytest

from arm_ext.api import digits

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"


@pytest.fixture
def said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], request: pytest.FixtureRequest
) -> str:
    """What the example that a test is named after prints, run on the virtual board."""
    name, *options = request.param
    monkeypatch.setattr("sys.argv", [name, *options])
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    return capsys.readouterr().out


def example(name: str, *options: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("said", [(name, *options)], indirect=True, ids=[name])


@example("camera_classifier.py")
def test_frames_are_classified(said: str) -> None:
    lines = said.splitlines()
    assert len(lines) == 3
    for line, label in zip(lines, digits.held_out()[1], strict=False):
        assert line.startswith(f"a generated {label}: {label} (")


@example("keyword_spotter.py")
def test_the_spotter_remembers(said: str) -> None:
    assert "the package keeps: memory" in said
    assert "step by step: True" in said
    scores = [line.partition(" by ")[2] for line in said.splitlines() if line.startswith("frame ")]
    assert len(scores) == 6
    assert scores[:3] != scores[3:]  # the same frames, with another past


@example("pytorch_module.py")
def test_a_module_computes_what_pytorch_does(said: str) -> None:
    assert "winograd_f32" in said or "gemm_f32" in said
    assert "largest difference to PyTorch" in said


@example("ethos_u.py")
def test_a_layer_falls_back_and_the_regions_run_on_the_cpu(said: str) -> None:
    assert "conv1: npu" in said
    assert "norm: cpu, not ethos-u65-256: we have no TOSA form of this operator" in said
    assert "payloads compute what they should: True" in said
    assert "NPU region 1 ran on the CPU: no NPU" in said
    assert "equal to the self-test: True" in said


@example("speech_synthesis.py")
def test_a_model_is_split_where_the_data_decides_a_size(said: str) -> None:
    assert (
        "Range node 'all_frames' gives a tensor whose size depends on the data (the value of 'length')."
        in said
    )
    assert "['frames', 'noise_scale', 'means', 'logs', 'end', 'start'], ['output'])" in said
    found = re.findall(r"^(\d+) frames: (\d+) samples, (\S+) from the whole model's$", said, re.MULTILINE)
    assert len({frames for frames, _, _ in found}) == 2
    for frames, samples, distance in found:
        assert int(samples) == 4 * int(frames)
        assert float(distance) < 1e-5  # sums of float32 in another order


@example("custom_rule_and_kernel.py")
def test_a_rule_and_a_kernel_from_outside_are_taken(said: str) -> None:
    assert "score: dot_f32, dot products of 64" in said
    assert "square, root: elementwise" in said


@pytest.mark.long
@example("pruning.py", "--board", "local", "--target", "host")
def test_pruning_pays_on_both(said: str) -> None:
    """Half of the channels need a third of the MACs or less; both networks classify nine of ten digits correctly."""
    lines = said.splitlines()
    shares = [float(line.split(", ")[-1].partition("%")[0]) for line in lines if "trained on" in line]
    assert len(shares) == 2
    assert min(shares) > 90
    whole, half = (float(line.split(": ")[1].split()[0]) for line in lines if " MMAC, " in line)
    assert half < whole / 3
    assert "  conv2d_2: 16 of 32 channels are not computed" in lines
    assert "scores are PyTorch's: True" in lines
    cycles = re.findall(r": (\d+) cycles by Vela, (\d+) with dense weights", said)
    assert cycles
    assert all(int(sparse) < int(dense) for sparse, dense in cycles)


@example("custom_operator.py")
def test_operators_of_a_plugin_are_compiled(said: str) -> None:
    assert "shrink: elementwise" in said
    assert "running: " in said
    assert "equal to the self-test: True" in said


def test_each_example_is_in_the_list() -> None:
    listed = (EXAMPLES / "README.md").read_text()
    assert [path.name for path in EXAMPLES.glob("*.py") if f"| `{path.name}` |" not in listed] == []
