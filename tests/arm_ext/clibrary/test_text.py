# SPDX-License-Identifier: Apache-2.0
import subprocess
from pathlib import Path

import pytest
from jinja2 import UndefinedError

from arm_ext.clibrary.text import (
    comment,
    file_identifier,
    identifier,
    identifiers,
    literal,
    render,
    words_of_sources,
)
from tests.arm_ext.clibrary.programs import STRICT, cc, run


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("digits_int8", "digits_int8"),
        ("DS-CNN v2", "ds_cnn_v2"),
        ("int", "m_int"),
        ("2048", "m_2048"),
        ("__x__", "x"),
        ("模型", "model"),
    ],
)
def test_a_name_is_one_of_c(text: str, name: str) -> None:
    assert identifier(text) == name


@pytest.mark.parametrize("name", ["features", "Signal", "m", "random", "stdint"])
def test_files_of_a_model_take_the_place_of_no_file_of_a_system(name: str) -> None:
    """With -I of a folder that has a features.h, glibc's headers include that one."""
    assert file_identifier(name) == f"m_{name.lower()}"
    assert file_identifier(f"{name}_int8") == f"{name.lower()}_int8"


def test_names_differ() -> None:
    assert len(identifier("m" * 300)) == 48  # files are named after it
    assert identifiers(["a b", "a-b", "A_B"], taken=["a_b_2"]) == ["a_b", "a_b_3", "a_b_4"]


def test_no_name_is_another_with_an_ending() -> None:
    """Else the size of `y` and the number of `y_bytes` would be the same macro."""
    assert identifiers(["y", "y_bytes"], endings=["_bytes"]) == ["y", "y_bytes_2"]
    assert identifiers(["y_bytes", "y"], endings=["_bytes"]) == ["y_bytes", "y_2"]


HOSTILE = '"\\ ??/ */ /* \n % é 模 %s\t'


def test_a_literal_is_the_text(tmp_path: Path) -> None:
    source = tmp_path / "p.c"
    source.write_text(
        f"/* {comment(HOSTILE)} */\n#include <stdio.h>\nint main(void) {{ return puts({literal(HOSTILE)}) < 0; }}\n"
    )
    assert run(cc([*STRICT, "-std=c11", source], tmp_path / "p")) == HOSTILE + "\n"
    assert subprocess.run(["gcc", "-std=c11", "-trigraphs", "-Werror", "-Wall", "-c", source, "-o", tmp_path / "o"],
                          check=False).returncode == 0  # fmt: skip


def test_words_of_sources_are_those_of_c() -> None:
    words = words_of_sources()
    assert {"instance", "overlap", "memory", "weights_bytes"} <= words
    assert not {"endfor", "loop", "upper", "generated"} & words


def test_a_template_needs_all_its_facts() -> None:
    with pytest.raises(UndefinedError, match="'file' is undefined"):
        render("weights.S", {"symbol": "w", "alignment": 64})


def test_text_of_a_model_is_no_template() -> None:
    assert "<% if @version@" in render("check.c", {"name": "<% if @version@", "models": []})
