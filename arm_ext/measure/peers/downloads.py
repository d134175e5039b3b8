# SPDX-License-Identifier: Apache-2.0
"""The files with which a peer runs on the emulator, unpacked into the cache folder: an arm64 Python and its wheels.

The Python is that of this Debian release. apt fetches it into a private state folder, so that dpkg's architectures and
package lists stay as they are.
"""

import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from arm_ext.common.errors import EnvError
from arm_ext.measure.peers.catalog import Peer
from arm_ext.native.build import cached

# Packages to install: the peers' wheels link to libstdc++; all dependencies follow.
PACKAGES = ("python3", "libstdc++6")
_ARCHIVE_WITH_ARM64 = "debian"
# Platform tags of the wheels of PEERS and of numpy.
_PLATFORMS = ("manylinux_2_28_aarch64", "manylinux_2_27_aarch64")


def debian_root() -> Path:
    """Return the file tree of an arm64 Debian with Python, of the same release as this machine.

    Raises:
        EnvError: This is no Debian, or its archive is out of reach.
    """
    release = platform.freedesktop_os_release()
    if release.get("ID") != _ARCHIVE_WITH_ARM64:
        raise EnvError(
            "other runtimes run in the arm64 Python of this machine's own archive, which Debian alone keeps beside "
            f"amd64; this is {release.get('PRETTY_NAME', 'another system')}. Run this in a container of Debian 12"
        )

    def fill(folder: Path) -> None:
        with tempfile.TemporaryDirectory() as scratch:
            for package in _download(Path(scratch)):
                _run(["dpkg-deb", "--extract", package, folder])
        if not (folder / "lib").exists():  # from Debian 13 on, the dynamic linker is only in usr/lib
            (folder / "lib").symlink_to("usr/lib")

    return cached("debian-arm64", [release.get("VERSION_ID", ""), *PACKAGES], fill)


def python_version(root: Path) -> str:
    """Return the version of the Python in a file tree, such as "3.11"."""
    return (root / "usr/bin/python3").readlink().name.removeprefix("python")


def wheels(peer: Peer, python: str) -> Path:
    """Return a folder for PYTHONPATH with a peer's aarch64 wheel and numpy.

    Args:
        peer: The runtime whose wheel is wanted.
        python: Version of the interpreter, such as "3.11".

    Raises:
        EnvError: The wheels cannot be downloaded.
    """

    def fill(folder: Path) -> None:
        tags = [f"--platform={platform}" for platform in _PLATFORMS]
        # Without dependencies: all packages that an inference imports are pinned.
        options = ["--quiet", "--no-deps", "--only-binary=:all:", f"--python-version={python}", *tags]
        # With -P, nothing is imported from the working folder.
        command = [
            sys.executable,
            "-P",
            "-m",
            "pip",
            "install",
            *options,
            "--target",
            str(folder),
            *peer.pins,
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            reason = (done.stderr.strip().splitlines() or ["pip said nothing"])[-1]
            raise EnvError(
                f"the aarch64 wheels of {peer.name} ({', '.join(peer.pins)}, Python {python}) cannot be downloaded: "
                f"{reason}\n"
                "This needs the network once, or a folder with the wheels in PIP_FIND_LINKS; the result is kept in "
                "the cache folder."
            )

    return cached(f"{peer.name}-aarch64", [*peer.pins, python, *_PLATFORMS], fill)


def _download(apt: Path) -> list[Path]:
    (apt / "state/lists/partial").mkdir(parents=True)
    (apt / "cache/archives/partial").mkdir(parents=True)
    (apt / "status").touch()
    # Copy only the settings that are needed to reach the archive; the system's hooks could clean the system's
    # caches.
    dump = _run(["apt-config", "dump"]).stdout
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
    (apt / "apt.conf").write_text("\n".join(settings), encoding="utf-8")
    env = {**os.environ, "APT_CONFIG": str(apt / "apt.conf")}
    # The update may fail because another archive of this machine lacks arm64; `install` fails if packages are
    # missing.
    _run(["apt-get", "update"], env, check=False)
    _run(["apt-get", "install", "--yes", "--download-only", "--no-install-recommends", *PACKAGES], env)
    return sorted((apt / "cache/archives").glob("*.deb"))


def _run(
    command: Sequence[str | Path], env: Mapping[str, str] | None = None, *, check: bool = True
) -> subprocess.CompletedProcess[str]:
    try:
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    except OSError as error:
        raise EnvError(
            f"the arm64 Python for other runtimes cannot be downloaded: {command[0]}: {error.strerror}"
        ) from error
    if check and done.returncode:
        reason = (done.stderr.strip().splitlines() or [f"{command[0]} said nothing"])[-1]
        raise EnvError(
            f"the arm64 Python for other runtimes cannot be downloaded: {reason}\n"
            "This needs the network, or a reachable Debian mirror, once; the result is kept in the cache folder."
        )
    return done
