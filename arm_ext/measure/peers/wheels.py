# SPDX-License-Identifier: Apache-2.0
"""The peers' own aarch64 wheels, unpacked into the cache folder."""

import subprocess
import sys
from pathlib import Path

from arm_ext.common.errors import EnvError
from arm_ext.measure.peers.catalog import Peer
from arm_ext.native.build import cached

# The platforms that the wheels of PEERS and of numpy are tagged with.
_PLATFORMS = ("manylinux_2_28_aarch64", "manylinux_2_27_aarch64")


def wheels(peer: Peer, python: str) -> Path:
    """Return a folder for PYTHONPATH with a peer's wheel and numpy.

    Args:
        peer: The runtime whose wheel is wanted.
        python: Version of the interpreter, such as "3.11".

    Raises:
        EnvError: The wheels cannot be downloaded.
    """

    def fill(folder: Path) -> None:
        tags = [f"--platform={platform}" for platform in _PLATFORMS]
        # Without dependencies: all packages that an inference imports are pinned, and no others are installed.
        options = ["--quiet", "--no-deps", "--only-binary=:all:", f"--python-version={python}", *tags]
        # With -P, Python imports no modules from the working folder.
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
