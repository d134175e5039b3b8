# SPDX-License-Identifier: Apache-2.0
"""A language model as a C library: keys and values are changed in one place."""

from pathlib import Path
from typing import Any

import pytest

import arm_ext
from tests.arm_ext.clibrary.programs import STRICT, Library, cc, cross, run
from tests.arm_ext.frontends.decoder.decoders import byte_tokenizer, gguf, saved

SANITIZED = ("-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
SHAPES = {"ids": ([1, 4],)}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("decoder")
    return gguf("Llama", saved("Llama", folder / "hf"), folder / "tiny.gguf", "Q4_0", byte_tokenizer)


def compiled(model: Path, folder: Path, target: str, **options: Any) -> Library:
    return Library(
        arm_ext.compile(model, target, folder / "tiny", emit="c-library", shapes=SHAPES, **options).package
    )


def test_steps_and_runs_are_as_expected(model: Path, tmp_path: Path):
    library = compiled(model, tmp_path, "host")
    assert "all outputs agree" in run(cc([*SANITIZED, *STRICT, *library.selftest], tmp_path / "selftest"))
    source = (tmp_path / "tiny" / "src" / "tiny.c").read_text()
    assert "{{0, 64}, 4, 0}, /* position */" in source
    assert "{{128, 128}, 4096, 0}, /* keys_0 */" in source
    # `run` leaves the caller's caches as they are, and copies them to the outputs, one copy for each shape.
    assert source.count("if (out[2].data != in[2].data)") == 2


def test_the_library_on_aarch64(model: Path, tmp_path: Path):
    library = compiled(model, tmp_path, "cortex-a53", threads=2)
    assert "all outputs agree" in run(cross([*STRICT, *library.selftest], tmp_path / "selftest"))


def test_steps_are_those_of_run(model: Path, tmp_path: Path):
    """Chunks by `step`, and the same by `run` with the states in the program's own memory, whose input stays."""
    library = compiled(model, tmp_path, "host")
    program = tmp_path / "program.c"
    program.write_text(
        """
#include <string.h>
#include "tiny.h"
static _Alignas(64) unsigned char arena[2][TINY_ARENA_BYTES];
static _Alignas(64) unsigned char states[3][TINY_INPUTS][4096];
static float logits[2][TINY_OUTPUT_LOGITS_ELEMENTS];
int main(void)
{
    static const int32_t ids[9] = {3, 1, 4, 1, 5, 9, 2, 6, 5};
    tiny_instance by_step, by_run;
    if (tiny_init(&by_step, arena[0], sizeof arena[0]) || tiny_init(&by_run, arena[1], sizeof arena[1])) return 1;
    size_t at = 0;
    for (size_t call = 0; at < 9; call++) {
        size_t shape = at + 4 <= 9 ? TINY_SHAPE_4 : TINY_SHAPE_1, count = shape == TINY_SHAPE_4 ? 4 : 1;
        tiny_input in[TINY_INPUTS] = {{ids + at, 4 * count}};
        tiny_output out[TINY_OUTPUTS] = {{logits[0], sizeof logits[0]}};
        if (tiny_step(&by_step, shape, in, out)) return 2;
        out[0].data = logits[1];
        for (size_t i = 1; i < TINY_INPUTS; i++) {
            in[i].data = states[call % 2][i];
            out[i].data = states[1 - call % 2][i];
            in[i].bytes = out[i].bytes = tiny_input_tensor(shape, i)->bytes;
        }
        memcpy(states[2], states[call % 2], sizeof states[2]);
        if (tiny_run(&by_run, shape, in, out)) return 3;
        if (memcmp(states[2], states[call % 2], sizeof states[2])) return 4;
        if (memcmp(logits[0], logits[1], sizeof logits[0])) return 5;
        at += count;
    }
    return 0;
}
"""
    )
    run(cc([*SANITIZED, *STRICT, program, *library.arguments], tmp_path / "program"))
