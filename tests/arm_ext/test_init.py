# SPDX-License-Identifier: Apache-2.0
"""What importing the package does to a machine: nothing."""

import os
import subprocess
import sys
from pathlib import Path

import arm_ext


def test_onnxruntime_keeps_and_sends_nothing(tmp_path: Path):
    environment = {
        key: value
        for key, value in os.environ.items()
        if key not in ("XDG_CACHE_HOME", "ORT_DISABLE_TELEMETRY")
    }
    program = "import arm_ext, onnxruntime; onnxruntime.InferenceSession"
    subprocess.run([sys.executable, "-c", program], env={**environment, "HOME": str(tmp_path)}, check=True)
    assert not list(tmp_path.rglob("*"))


def test_who_asked_for_telemetry_keeps_it():
    environment = {**os.environ, "ORT_DISABLE_TELEMETRY": "0"}
    program = "import arm_ext, os; print(os.environ['ORT_DISABLE_TELEMETRY'])"
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, check=True, capture_output=True, text=True
    )
    assert done.stdout == "0\n"


def test_dir_shows_the_public_api():
    assert set(arm_ext.__all__) <= set(dir(arm_ext))
