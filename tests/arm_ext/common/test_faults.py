# SPDX-License-Identifier: Apache-2.0
import re
import subprocess
import sys

import pytest


def test_a_limit_on_the_size_of_files_is_told_before_the_work():
    code = (
        "import resource; from arm_ext.common.faults import require_file_size;"
        "require_file_size(1 << 40);"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192));"
        "require_file_size(8192); require_file_size(8193)"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "EnvError: this shell limits a file to 8,192 bytes (ulimit -f)" in ended.stderr


@pytest.mark.parametrize(
    ("megabytes", "said"),
    [
        (400, "419 MB of address space, but TVM with LLVM needs 1,074"),
        (90, "94 MB of address space, but numpy needs 157"),
    ],
)
def test_a_limit_on_addresses_is_told_before_libraries_are_loaded(megabytes, said):
    code = (
        "import resource, sys; from arm_ext.cli import invoke;"
        f"resource.setrlimit(resource.RLIMIT_AS, ({megabytes} << 20,) * 2);"
        "sys.exit(invoke(['targets']) or invoke(['compile', '--target', 'host', '-o', '/dev/null/x']))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=300
    )
    assert ended.returncode == 3, ended.stderr
    assert f"this shell limits a process to {said} MB" in ended.stderr


@pytest.mark.parametrize(
    ("surroundings", "said"),
    [
        ("resource.setrlimit(resource.RLIMIT_NOFILE, (8, 8))", "a process to 8 open files, .*ulimit -n"),
        ("resource.setrlimit(resource.RLIMIT_STACK, (1 << 16,) * 2)", "65,536 bytes of stack, .*ulimit -s"),
        ("time.time = far", "clock of this machine is beyond"),
    ],
)
def test_surroundings_in_which_nothing_loads_are_told(surroundings: str, said: str):
    code = f"""
import resource, time
from arm_ext.cli import main
def far():
    raise OverflowError("timestamp too large to convert to C _PyTime_t")  # as in the year 9999
{surroundings}
main(["compile", "nope.onnx"])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert re.fullmatch(f"error: .*{said}.*\n", done.stderr)
