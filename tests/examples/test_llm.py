# SPDX-License-Identifier: Apache-2.0
"""The C++ example on a random decoder, against the definition in numpy."""

import subprocess
from pathlib import Path

import numpy as np

import arm_ext
from arm_ext.frontends.decoder.importer import open_decoder
from tests.arm_ext.clibrary.programs import STRICT, Library, cc
from tests.arm_ext.frontends.decoder.decoders import gguf, saved

SOURCE = Path(__file__).parents[2] / "examples/llm/main.cpp"
PROMPT = (3, 1, 4, 1, 5, 9, 2)


def test_tokens_are_the_most_likely(tmp_path: Path) -> None:
    model = gguf("Llama", saved("Llama", tmp_path / "hf"), tmp_path / "tiny.gguf", "Q4_0")
    shapes = {"ids": ((1, 4),)}
    package = arm_ext.compile(model, "host", tmp_path / "c", emit="c-library", shapes=shapes).package
    words = [*STRICT, "-std=c++17", "-O1", "-DMODEL=tiny", SOURCE, *Library(package).arguments]
    program = cc(words, tmp_path / "generate", "g++")

    def said(count: int, end: int) -> list[int]:
        words = map(str, (program, count, end, *PROMPT))
        done = subprocess.run([*words], capture_output=True, text=True, check=True)
        return [int(line) for line in done.stdout.split()]

    reference, found = open_decoder(model).at({}), []
    states = [np.array(state.initial) for state in reference.states]
    for step in range(len(PROMPT) + 6):
        token = PROMPT[step] if step < len(PROMPT) else found[-1]
        (logits, *states), _ = reference.reference([np.array([token], np.int32), *states])
        if step >= len(PROMPT) - 1:
            found.append(int(logits.argmax()))
    assert said(6, -1) == found[:6]
    assert said(6, found[2]) == found[: found.index(found[2])]
    assert subprocess.run([program], capture_output=True, check=False).returncode == 2
