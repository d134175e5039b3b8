# SPDX-License-Identifier: Apache-2.0
"""What times on a board depend on, as far as the board tells."""

from arm_ext.board.session import Session
from arm_ext.errors import ModelError

UNKNOWN = "unknown"
_GOVERNOR = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"
_TEMPERATURE = "/sys/class/thermal/thermal_zone0/temp"
_MILLIDEGREES = 1000


def threads(session: Session) -> int:
    """Threads of the runtime's pool."""
    with session.guard():
        return int(session.function("runtime.NumThreads")())


def governor(session: Session) -> str:
    """Linux's cpufreq governor of cpu0, or "unknown"."""
    return _first_line(session, _GOVERNOR)


def temperature(session: Session) -> str:
    """Of the first thermal zone, such as "48.5 C", or "unknown"."""
    text = _first_line(session, _TEMPERATURE)
    return f"{int(text) / _MILLIDEGREES:.1f} C" if text.lstrip("-").isdigit() else UNKNOWN


def _first_line(session: Session, path: str) -> str:
    """Of a file on the board; "unknown" where there is none: containers and virtual machines have neither."""
    try:
        with session.guard():
            content = bytes(session.function("tvm.rpc.server.download")(path))
    except ModelError:
        return UNKNOWN
    # The server reads as many bytes as the file's size says, a page in sysfs, and pads with zeros.
    return content.partition(b"\n")[0].partition(b"\0")[0].decode() or UNKNOWN
