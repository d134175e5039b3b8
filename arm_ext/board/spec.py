# SPDX-License-Identifier: Apache-2.0
"""Names of boards on the command line."""

import re
from dataclasses import dataclass
from typing import Literal

from arm_ext.common.errors import UsageError
from arm_ext.target.profiles import PROFILES

_EXAMPLES = (
    "virtual, virtual:cortex-a76, local, ssh://pi@raspberrypi, adb, 192.168.0.7:9090 or "
    "tracker-192.168.0.2:9190/rpi5"
)

_PATTERN = re.compile(
    r"(?P<virtual>virtual)(?::(?P<cpu>\S+))?"
    r"|(?P<local>local)"
    r"|tracker-(?P<tracker>[\w.-]+):(?P<tracker_port>[0-9]{1,5})/(?P<key>\S+)"
    r"|(?P<ssh>ssh://[\w.@:%\[\]-]+)(?P<folder>/\S*)?"
    r"|(?P<adb>adb)(?::(?P<serial>[\w.:-]+))?"
    r"|(?!virtual:|local:|tracker-|ssh:|adb:)(?P<remote>[\w.-]+):(?P<remote_port>[0-9]{1,5})"
)
_MAX_PORT = 65535


@dataclass(frozen=True)
class BoardSpec:
    """A parsed board name.

    Attributes:
        kind: Kind of the board.
        cpu: QEMU's name of the CPU of a virtual board; "" where the name leaves it open.
        host: Host of a remote board or of the tracker; what ssh takes for it.
        port: TCP port at that host.
        key: Device key that the tracker is asked for; adb's serial number, "" for the only device.
        folder: Folder of a board behind ssh that the server is copied into; "" for its temporary folder.
    """

    kind: Literal["virtual", "local", "ssh", "adb", "remote", "tracker"]
    cpu: str = ""
    host: str = ""
    port: int = 0
    key: str = ""
    folder: str = ""

    @property
    def starts_server(self) -> bool:
        """Whether opening the board starts its server, so that its cores and threads can be chosen."""
        return self.kind not in ("remote", "tracker")


def parse_spec(spec: str) -> BoardSpec:
    """Parse "virtual[:cpu]", "local", "ssh://host[/folder]", "adb[:serial]", "host:port" or "tracker-host:port/key".

    Raises:
        UsageError: The name has none of these forms.
    """
    match = _PATTERN.fullmatch(spec)
    port = int((match and (match["tracker_port"] or match["remote_port"])) or 0)
    if match is None or port > _MAX_PORT:
        raise UsageError(f"no board is named {spec!r}; boards are named like these: {_EXAMPLES}")
    if match["virtual"]:
        return BoardSpec("virtual", cpu=match["cpu"] or "")
    if match["local"]:
        return BoardSpec("local")
    if match["ssh"]:
        return BoardSpec("ssh", host=match["ssh"], folder=match["folder"] or "")
    if match["adb"]:
        return BoardSpec("adb", key=match["serial"] or "")
    if match["tracker"]:
        return BoardSpec("tracker", host=match["tracker"], port=port, key=match["key"])
    return BoardSpec("remote", host=match["remote"], port=port)


def default_target(board: str) -> str:
    """Return the default target for a board: the profile of its CPU if there is one, else "host" or "arm".

    Raises:
        UsageError: As `parse_spec`.
    """
    spec = parse_spec(board)
    return "host" if spec.kind == "local" else spec.cpu if spec.cpu in PROFILES else "arm"
