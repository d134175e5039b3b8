# SPDX-License-Identifier: Apache-2.0
"""TVM's own tracker."""

import re
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from arm_ext.board.process import ServerProcess, guarded


@contextmanager
def running() -> Iterator[str]:
    """The address of a tracker on this machine."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "tvm.exec.rpc_tracker", "--host", "127.0.0.1"]
    ports = ["--port", str(port), "--port-end", str(port + 1)]
    with TemporaryDirectory() as folder:
        # TVM imports torch if it is there, in two processes here, which takes them seconds.
        (Path(folder) / "torch.py").write_text("raise ImportError")
        process = ServerProcess(lambda _: guarded([*command, *ports]), {"PYTHONPATH": folder})
        process.wait_for(lambda log: re.search("bind to", log) and "up", 60)
        yield f"127.0.0.1:{port}"
        process.close()
