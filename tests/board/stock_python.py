# SPDX-License-Identifier: Apache-2.0
"""An aarch64 Python with apache-tvm's own wheel and nothing of ours, run by qemu-user.

The interpreter is the arm64 one of this Debian release. apt fetches it into a private state folder, so that
dpkg's architectures and package lists stay as they are.
"""

import importlib.metadata
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from arm_ext.native.build import cached

RUNTIME = ("apache-tvm", "apache-tvm-ffi")
DEBIAN_PACKAGES = ("python3", "libstdc++6")  # the wheels need libstdc++; dependencies follow
WHEEL_PLATFORM = "manylinux_2_28_aarch64"  # of the runtime's wheels


@dataclass(frozen=True)
class StockPython:
    """A Debian arm64 file tree with a Python, and a folder of wheels."""

    root: Path
    site: Path

    @property
    def version(self) -> str:
        """Such as "3.11"."""
        return (self.root / "usr/bin/python3").readlink().name.removeprefix("python")

    def run(self, script: str, args: Sequence[str | Path], *, cpu: str) -> str:
        """Run a script on a QEMU CPU, with no environment but the wheels, and return its stdout."""
        qemu = shutil.which("qemu-aarch64")
        assert qemu is not None, "qemu-aarch64 is missing; install it with: apt-get install qemu-user"
        python = self.root / "usr/bin" / f"python{self.version}"
        command = [qemu, "-cpu", cpu, "-L", self.root, python, "-sP", "-c", script, *args]
        # A file more in the cache folder would be damage to it, and all of it fetched again by the next process.
        env = {"PYTHONPATH": str(self.site), "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout


def is_available() -> bool:
    """Whether this distribution's archive has arm64 beside amd64 (Ubuntu keeps arm64 on another server)."""
    return platform.freedesktop_os_release()["ID"] == "debian"


def stock_python() -> StockPython:
    """Return the Python, made once into the cache folder."""
    pins = [f"{name}=={importlib.metadata.version(name)}" for name in RUNTIME]

    def fill(folder: Path) -> None:
        made = StockPython(folder / "root", folder / "site")
        with tempfile.TemporaryDirectory() as apt:
            _unpack_debian(made.root, Path(apt))
        _install_wheels(made, pins)

    folder = cached("stock-python", [*pins, *DEBIAN_PACKAGES], fill)
    return StockPython(folder / "root", folder / "site")


def _unpack_debian(root: Path, apt: Path) -> None:
    (apt / "state/lists/partial").mkdir(parents=True)
    (apt / "cache/archives/partial").mkdir(parents=True)
    (apt / "status").touch()
    # Of the system's settings only how to reach the archive: hooks may clean the system's own caches.
    dump = subprocess.run(["apt-config", "dump"], capture_output=True, text=True, check=True).stdout
    settings = [line for line in dump.splitlines() if line.startswith("Acquire::")]
    settings += [
        'APT::Architecture "arm64";',
        'APT::Architectures { "arm64"; };',
        'APT::Sandbox::User "root";',
        'Dir::Etc::Main "/dev/null";',
        'Dir::Etc::Parts "/dev/null";',
        f'Dir::State "{apt}/state";',
        f'Dir::State::status "{apt}/status";',
        f'Dir::Cache "{apt}/cache";',
    ]
    (apt / "apt.conf").write_text("\n".join(settings))
    env = {**os.environ, "APT_CONFIG": str(apt / "apt.conf")}
    # Another archive of this machine may lack arm64; what matters is whether the packages are found.
    _run(["apt-get", "update"], env, check=False)
    _run(["apt-get", "install", "--yes", "--download-only", "--no-install-recommends", *DEBIAN_PACKAGES], env)
    root.mkdir(parents=True)
    for package in sorted((apt / "cache/archives").glob("*.deb")):
        _run(["dpkg-deb", "--extract", package, root])
    if not (root / "lib").exists():  # from Debian 13 on the dynamic linker lies in usr/lib alone
        (root / "lib").symlink_to("usr/lib")


def _install_wheels(python: StockPython, pins: Sequence[str]) -> None:
    tags = ["--only-binary", ":all:", "--platform", WHEEL_PLATFORM, "--python-version", python.version]
    _run([sys.executable, "-m", "pip", "install", "--quiet", *tags, "--target", python.site, *pins])


def _run(command: Sequence[str | Path], env: dict[str, str] | None = None, *, check: bool = True) -> None:
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert not check or done.returncode == 0, f"{command}: {done.stderr}"
