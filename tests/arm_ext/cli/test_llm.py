# SPDX-License-Identifier: Apache-2.0
"""A random decoder from its file to text on an emulated board."""

import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from gguf import GGMLQuantizationType, GGUFReader

import arm_ext
from arm_ext.api.llm import run_llm
from arm_ext.cli import invoke
from arm_ext.cli.llm import llm
from arm_ext.common.errors import UsageError
from arm_ext.frontends.decoder.importer import open_decoder
from arm_ext.llm.generate import TextModel
from tests.arm_ext.frontends.decoder.decoders import byte_tokenizer, gguf, saved


def ran(*arguments: object) -> Result:
    return CliRunner().invoke(llm, [str(each) for each in arguments])


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("llm")
    return gguf("Llama", saved("Llama", folder / "hf"), folder / "tiny.gguf", "Q4_0", byte_tokenizer)


@pytest.fixture(scope="module")
def package(model: Path) -> Path:
    """Of chunks of 1 and 4 tokens, and a context of 32."""
    output = model.with_suffix(".armpkg")
    given = "--target", "cortex-a53", "--context", 32, "--chunks", "1,4", "-o", output
    result = ran("compile", model, *given)
    assert result.exit_code == 0, result.output
    # Two layers of keys and values of two groups of 16, in float16.
    states = 2 * 2 * 32 * 2 * 16 * 2 + 4
    assert f"{states:,} bytes for 32 tokens, {states // 32} for each" in result.output
    assert f"\n  state     {states:,} bytes" in (output / "report.txt").read_text()
    return output


def greedy(model: Path, prompt: str, count: int) -> list[int]:
    """The text by the definition in numpy."""
    source, found = open_decoder(model, 32).at({}), []
    states = [np.array(state.initial) for state in source.states]
    for token in TextModel.of(arm_ext.load_package(model.with_suffix(".armpkg"))).encode(prompt):
        (logits, *states), _ = source.reference([np.array([token], np.int32), *states])
    for _ in range(count):
        found.append(int(logits.argmax()))
        (logits, *states), _ = source.reference([np.array(found[-1:], np.int32), *states])
    return found


def test_weights_have_the_bytes_of_the_file(model: Path, package: Path):
    found = TextModel.of(arm_ext.load_package(package)).record.weights
    tensors = GGUFReader(model).tensors
    of = {
        form: sum(int(tensor.n_bytes) for tensor in tensors if tensor.tensor_type == kind)
        for form, kind in (("4 bits", GGMLQuantizationType.Q4_0), ("float32", GGMLQuantizationType.F32))
    }
    assert found == of


def test_text_on_a_board_is_the_definition(model: Path, package: Path):
    result = run_llm(package, "Aword", tokens=8)
    assert result.generated.prompt == 5
    assert result.generated.ids == greedy(model, "Aword", 8)
    assert run_llm(package, "Aword", tokens=8, threads=4).generated.ids == result.generated.ids
    shorter = run_llm(package, "Aword", tokens=8, stops=[result.text[3:5]])
    assert shorter.text == result.text[: result.text.index(result.text[3:5])]


def test_one_package_for_all_cores_has_the_same_tokens(model: Path, tmp_path: Path):
    output = tmp_path / "all"
    result = ran("compile", model, "--target", "armv8-a+", "--context", 32, "--chunks", "1,4", "-o", output)
    assert result.exit_code == 0, result.output
    certificate = arm_ext.certify(output, targets=("armv8-a", "dotprod", "i8mm"), threads=(1,))
    assert [run.outcome for run in certificate.runs] == ["equal"] * 3
    texts = {
        run_llm(output, "Aword", f"virtual:{cpu}", tokens=8).text for cpu in ("cortex-a72", "neoverse-n2")
    }
    assert len(texts) == 1
    counted = ran("run", output, "--board", "virtual:cortex-a72", "--prompt", "A", "--tokens", 2, "--count")
    assert "M instructions for a token" in counted.stderr


def test_commands(package: Path):
    result = ran("run", package, "--prompt", "Aword", "--tokens", 4, "--count")
    assert result.exit_code == 0, result.output
    pattern = r"5 tokens of prompt, 4 generated; ended by length; 0\.\d+ M instructions for a token after 9"
    assert re.search(pattern, result.stderr)
    chat = ran("run", package, "--prompt", "Aword", "--chat", "--tokens", 1)
    assert "6 tokens of prompt" in chat.stderr


def test_its_selftest_is_equal(package: Path):
    result = arm_ext.run(package, check=True)
    assert all(check.expected.exact for check in result.checks)
    names = [check.name for check in result.checks]
    assert [name for name in names if name.startswith("logits of 4 steps")]


def test_the_check_is_a_page(package: Path, capsys: pytest.CaptureFixture[str]):
    """Caches, which are equal, share a row; shapes are told by the inputs that differ."""
    assert invoke(["run", str(package), "--check"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 130
    for rows in (1, 4):
        caches = f"keys_0_next … values_1_next of ids int32[{rows}]: 4 outputs"
        assert [line for line in lines if line.startswith(caches)]
        logits = lines.index(next(line for line in lines if line.startswith(f"logits of ids int32[{rows}]")))
        # The definition in numpy has the same bits.
        assert lines[logits + 1].split() == ["source", "equal", "same"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("--prompt", "x" * 40), "the prompt has 40 tokens, and the package's context is 32"),
        (("--prompt", ""), "the prompt is empty"),
        ((), "give the text by --prompt, or by --prompt-file"),
        (("--prompt", "a", "--system", "b"), "add --chat"),
        (("--prompt", "a", "--top-p", "0"), "--top-p 0.0: it must be above 0"),
        (("--prompt-file", "/none"), "--prompt-file /none: cannot be read"),
    ],
)
def test_what_cannot_be_run(package: Path, given: tuple[str, ...], message: str):
    result = ran("run", package, *given)
    assert isinstance(result.exception, UsageError)
    assert message in str(result.exception)


def test_what_cannot_be_compiled(model: Path, tmp_path: Path):
    output = tmp_path / "out"
    for given, message in (
        (("--chunks", "4,8"), "different numbers, 1 among them"),
        (("--context", 128), "trained for 64 tokens"),
    ):
        result = ran("compile", model, "-o", output, *given)
        assert message in str(result.exception)
    assert "no list of numbers" in ran("compile", model, "--chunks", "a").output
    assert not output.exists()


def test_a_package_without_text_is_told(tmp_path: Path):
    package = tmp_path / "digits.armpkg"
    arm_ext.compile(arm_ext_digits(), "cortex-a53", package)
    with pytest.raises(UsageError, match="holds no language model"):
        run_llm(package, "x")


def arm_ext_digits() -> Path:
    from arm_ext.api import digits

    return digits.model_path()


def test_a_library(model: Path, tmp_path: Path):
    output = tmp_path / "lib"
    given = "--target", "host", "--context", 32, "--chunks", "1,4", "--quantize-weights", "int4"
    result = ran("compile", model, "-o", output, "--emit", "c-library", "--weights", "file", *given)
    assert result.exit_code == 0, result.output
    assert "examples/llm" in result.output
    header = (output / "include" / "tiny.h").read_text()
    assert "TINY_SHAPE_4" in header


def test_a_budget_counts_weights_cache_and_activations(model: Path, tmp_path: Path):
    given = "--target", "cortex-a53", "--chunks", "1", "--memory-budget", 10_000, "-o", tmp_path / "out"
    said = str(ran("compile", model, *given).exception)
    assert re.match(
        r"[\d,]+ bytes of memory exceed --memory-budget 10,000: weights [\d,]+, states 16,388, act", said
    )
    assert "weights shrink by --quantize-weights int4" in said
    said = str(ran("compile", model, "--emit", "c-library", *given).exception)
    assert re.match(r"[\d,]+ bytes of memory exceed --memory-budget 10,000: states 16,388, activations", said)
    assert "--context or --cache float16" in said
    assert not (tmp_path / "out").exists()
