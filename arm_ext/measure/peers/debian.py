# SPDX-License-Identifier: Apache-2.0
"""The arm64 Python of this Debian release, unpacked into the cache folder.

apt fetches it into a private state folder, so that dpkg's architectures and package lists stay as they are.
"""

import os
import platform
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from arm_ext.common.errors import EnvError
from arm_ext.native.build import cached

# The peers' wheels link to libstdc++; all dependencies follow.
PACKAGES = ("python3", "libstdc++6")
_ARCHIVE_WITH_ARM64 = "debian"


def debian_root() -> Path:
    """Return the file tree of an arm64 Debian with Python, of the release that runs here.

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
        if not (folder / "lib").exists():  # from Debian 13 on the dynamic linker lies in usr/lib alone
            (folder / "lib").symlink_to("usr/lib")

    return cached("debian-arm64", [release.get("VERSION_ID", ""), *PACKAGES], fill)


def python_version(root: Path) -> str:
    """Return the version of the Python in a file tree, such as "3.11"."""
    return (root / "usr/bin/python3").readlink().name.removeprefix("python")


def _download(apt: Path) -> list[Path]:
    (apt / "state/lists/partial").mkdir(parents=True)
    (apt / "cache/archives/partial").mkdir(parents=True)
    (apt / "status").touch()
    # Copy only the settings that reach the archive; the system's hooks could clean the system's caches.
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
    # The update may fail, because another archive of this machine lacks arm64; `install` fails if the packages are
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
