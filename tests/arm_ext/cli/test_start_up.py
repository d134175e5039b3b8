# SPDX-License-Identifier: Apache-2.0
"""What a command loads before it has something to do."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import arm_ext

# Each takes a tenth of a second to seconds.
HEAVY = (
    *(
        "tvm",
        "tvm.runtime.disco",
        "tvm.s_tir.meta_schedule.database",
        "tvm.s_tir.dlight.gpu",
        "onnxruntime.quantization",
        "tvm_ffi",
        "torch",
        "onnx",
        "onnxruntime",
        "jax",
        "tflite",
        "scipy",
        "sklearn",
    ),
    "yaml",
)

_RUN = """
import sys
from arm_ext.cli import invoke

code = invoke(sys.argv[2:])
print("LOADED", *(name for name in sys.argv[1].split(",") if name in sys.modules))
sys.exit(code)
"""


def _loaded(*arguments: str, code: int = 0) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", _RUN, ",".join(HEAVY), *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == code, done.stderr
    return done.stdout.splitlines()[-1].split()[1:]


def test_help_loads_nothing_heavy() -> None:
    """All commands in one process, which names the first that loads something."""
    commands = (
        *("", "bench", "board", "board virtual", "cache", "cache show", "cache clear", "compile", "db"),
        *("db show", "db merge", "db prune", "doctor", "explain", "export-payload", "run", "targets", "tune"),
        "verify",
    )
    script = f"""
import sys
from arm_ext.cli import invoke

for command in {commands}:
    assert invoke([*command.split(), "--help"]) == 0, command
    assert not [name for name in {HEAVY} if name in sys.modules], command
"""
    subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)


def test_a_table_of_targets_loads_nothing_heavy() -> None:
    assert _loaded("targets") == []


def test_wrong_usage_loads_nothing_heavy() -> None:
    assert _loaded("compile", "--precision", "fp7", code=2) == []


def test_the_package_lists_its_names_and_loads_them_when_they_are_used() -> None:
    listed = (
        "import sys, arm_ext; assert set(arm_ext.__all__) <= set(dir(arm_ext)); print('tvm' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", listed], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
    assert [name for name in arm_ext.__all__ if not hasattr(arm_ext, name)] == []


def test_a_model_of_another_format_is_compiled_without_torch(tmp_path: Path) -> None:
    loaded = _loaded("compile", "--target", "host", "-o", str(tmp_path / "digits.armpkg"))
    assert "tvm" in loaded
    assert set(loaded) == {"tvm", "tvm_ffi", "onnx", "onnxruntime"}


def test_a_program_has_torch_only_if_it_asks_for_it() -> None:
    later = (
        "import arm_ext, sys; arm_ext.compile; print('torch' in sys.modules);"
        "import torch; print(torch.ones(2).sum())"
    )
    done = subprocess.run([sys.executable, "-c", later], capture_output=True, text=True, check=True)
    assert done.stdout == "False\ntensor(2.)\n"


def test_what_a_command_does_without_can_be_imported_later() -> None:
    later = (
        "import torch, tvm.runtime.disco; from tvm.s_tir import meta_schedule;"
        "print(torch.__name__, tvm.runtime.disco.Session.__name__, meta_schedule.Database.__name__)"
    )
    loading = f"from arm_ext.cli.loading import load_tvm; load_tvm(); {later}"
    done = subprocess.run([sys.executable, "-c", loading], capture_output=True, text=True, check=True)
    assert done.stdout == "torch Session Database\n"


@pytest.mark.parametrize("asked", [None, "1"])
def test_backends_of_other_devices_stay_out(asked: str | None) -> None:
    loading = (
        "import os, sys; from arm_ext.cli.loading import load_tvm; load_tvm(); import tvm;"
        "tvm.get_global_func('tvm.contrib.sort.argsort');"
        "print('tvm.backend.cuda.ptx' in sys.modules, os.environ.get('TVM_DEVICE_BACKEND_AUTOLOAD'))"
    )
    environment = {key: value for key, value in os.environ.items() if key != "TVM_DEVICE_BACKEND_AUTOLOAD"}
    environment |= {"TVM_DEVICE_BACKEND_AUTOLOAD": asked} if asked else {}
    done = subprocess.run(
        [sys.executable, "-c", loading], capture_output=True, text=True, check=True, env=environment
    )
    assert done.stdout == f"False {asked}\n"


def test_no_script_is_parsed_while_modules_are_loaded() -> None:
    """TVM's parser walks the call stack, which takes it most of a second inside an import."""
    loading = "import tvm.tirx.script.parser.entry as entry; entry.parse = None; import arm_ext.api.compile"
    subprocess.run([sys.executable, "-c", loading], check=True)
