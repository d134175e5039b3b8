# SPDX-License-Identifier: Apache-2.0
import json
from pathlib import Path

import pytest

from arm_ext.cli import invoke


def test_timings_name_every_step(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = str(tmp_path / "digits.armpkg")
    assert invoke(["compile", "--target", "host", "-o", output, "--no-cache", "--timings", "--json"]) == 0
    timings = json.loads(capsys.readouterr().out)["timings"]
    parts = timings["parts"]
    assert {"Python modules", "import", "fuse", "lower", "code generation", "machine code"} <= parts.keys()
    assert "lower" in parts["self-test"]["parts"]
    assert sum(parts["kernels"]["counts"].values()) > 0
    assert invoke(["compile", "--target", "host", "-o", output, "--timings"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.split("CPU seconds")[1].splitlines()]
    assert any("from the cache" in " ".join(row) for row in rows if row[:1] == ["kernels"])
    assert not any(row[-1] == "0.0" for row in rows if row)
    named = sum(part["cpu_seconds"] for part in parts.values())
    assert 0.5 * timings["cpu_seconds"] < named <= timings["cpu_seconds"] + 0.1
