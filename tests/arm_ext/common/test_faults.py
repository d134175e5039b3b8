# SPDX-License-Identifier: Apache-2.0
import subprocess
import sys


def test_a_limit_on_the_size_of_files_is_told_before_the_work():
    code = (
        "import resource; from arm_ext.common.faults import require_file_size;"
        "require_file_size(1 << 40);"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192));"
        "require_file_size(8192); require_file_size(8193)"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "EnvError: a file of this shell may have 8,192 bytes (ulimit -f)" in ended.stderr


def test_a_limit_on_addresses_is_told_before_libraries_are_loaded():
    code = (
        "import resource, sys; from arm_ext.cli import invoke;"
        "resource.setrlimit(resource.RLIMIT_AS, (400 << 20, 400 << 20));"
        "sys.exit(invoke(['targets']) or invoke(['compile', '--target', 'host', '-o', '/dev/null/x']))"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ended.returncode == 3, ended.stderr
    assert "this shell allows a process 419 MB of addresses, and TVM with LLVM takes 1,074 MB" in ended.stderr
