# SPDX-License-Identifier: Apache-2.0
import json

import operators_page
import pytest

from arm_ext import cli
from tests.arm_ext.frontends.ops.vocabulary_cases import FAMILIES


def test_the_page_is_what_the_tables_say() -> None:
    assert operators_page.PAGE.read_text() == operators_page.page(), "write it by scripts/operators_page.py"


def test_operators_of_the_table_of_cases_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.invoke(["operators", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)["operators"]
    assert listed.keys() == {"onnx", "pytorch", "tflite", "stablehlo"}
    for case in (case for cases in FAMILIES.values() for case in cases):
        for format_, written in (("onnx", case.onnx), ("tflite", case.tflite)):
            if isinstance(name := written[0] if isinstance(written, tuple) else written, str):
                assert name in listed[format_], case.name
    assert {"add", "conv2d", "softmax"} <= set(listed["pytorch"])
    assert {"stablehlo.add", "stablehlo.dot_general"} <= set(listed["stablehlo"])


def test_what_is_refused_is_not_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.invoke(["operators", "onnx", "tflite", "pytorch"]) == 0
    lists = capsys.readouterr().out.split("\n\n")
    for names, refused in zip(lists, ("StringNormalizer", "STABLEHLO_WHILE", "masked_select"), strict=True):
        assert refused not in names.splitlines()[1].split(", ")
