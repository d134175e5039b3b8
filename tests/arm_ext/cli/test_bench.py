# SPDX-License-Identifier: Apache-2.0
import json
import re
from pathlib import Path

import pytest

from arm_ext.cli import invoke
from arm_ext.measure.peers.comparison import Comparison
from arm_ext.measure.threads import ThreadReport


def test_a_comparison_is_printed_as_a_table(digits_package: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["bench", str(digits_package), "--against", "onnxruntime,litert"]) == 3
    out = capsys.readouterr().out
    assert "cycles with caches" in out
    assert "tvm-arm-ext 0" in out
    assert "onnxruntime: not available: needs a .onnx of the same network" in out
    assert "no time on a board" in out


def test_a_comparison_is_printed_as_json(digits_package: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["bench", str(digits_package), "--against", "litert", "--json"]) == 3
    assert Comparison.model_validate(json.loads(capsys.readouterr().out)).schema_version == 3


def test_threads_are_printed_as_a_table(digits_package: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["bench", str(digits_package), "--threads", "2"]) == 0
    out = capsys.readouterr().out
    assert "by thread" in out
    assert "one thread" in out  # its layers are small
    assert "arm_conv2d" in out
    assert "the runtime and its waits included" in out


def test_threads_are_printed_as_json(digits_package: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["bench", str(digits_package), "--threads", "2", "--json"]) == 0
    report = ThreadReport.model_validate(json.loads(capsys.readouterr().out))
    assert report.threads == 2
    assert report.elapsed_instructions is not None
    assert report.elapsed_instructions > report.critical_instructions


def test_several_threads_are_a_table_of_their_own(
    digits_package: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert invoke(["bench", str(digits_package), "--against", "litert", "--threads", "2"]) == 3
    assert re.search(
        r"elapsed on 2 threads +faster +ratio\ntvm-arm-ext \S+ +[\d,]+ +[\d.]+ x +1.00",
        capsys.readouterr().out,
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--against", "ort"], "unknown runtime 'ort'"),
        (["--mattr", "-sve"], "are for --against"),
        (["--against", "litert", "--cores", "0-1"], "leave out --cores"),
        (["--board", "127.0.0.1:1", "--threads", "2"], "start it with TVM_NUM_THREADS=2"),
        (["--litert-model", "m.tflite"], "are for --against"),
        (["--against", "litert", "--litert-model", "gone.tflite"], "gone.tflite: cannot be read"),
    ],
)
def test_wrong_options_are_usage_errors(
    digits_package: Path, options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert invoke(["bench", str(digits_package), *options]) == 2
    assert message in capsys.readouterr().err
