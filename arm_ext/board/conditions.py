# SPDX-License-Identifier: Apache-2.0
"""Conditions that times on a board depend on, as far as the board reports them."""

from arm_ext.board.info import core_name
from arm_ext.board.session import BoardSession
from arm_ext.common.cores import parse_cores
from arm_ext.common.errors import ModelError

UNKNOWN = "unknown"
_CPU = "/sys/devices/system/cpu"
_ONLINE = f"{_CPU}/online"
_MIDR = "regs/identification/midr_el1"
_CAPACITY = "cpu_capacity"
_GOVERNOR = "cpufreq/scaling_governor"
_CLOCK = "cpufreq/scaling_cur_freq"
_TEMPERATURE = "/sys/class/thermal/thermal_zone0/temp"
_MILLIDEGREES = 1000
_KHZ_PER_MHZ = 1000


def threads(session: BoardSession) -> int:
    """Return the number of threads of the runtime's pool."""
    with session.guard():
        return int(session.function("runtime.NumThreads")())


def online(session: BoardSession) -> tuple[int, ...]:
    """Return the numbers of the online cores; () if the board does not report them."""
    text = _first_line(session, _ONLINE)
    return () if text == UNKNOWN else parse_cores(text)


def governor(session: BoardSession, core: int = 0) -> str:
    """Return the name of a core's cpufreq governor, or "unknown"."""
    return _of_core(session, core, _GOVERNOR)


def clock(session: BoardSession, core: int = 0) -> str:
    """Return a core's clock as Linux sets it now, such as "2400 MHz", or "unknown"."""
    text = _of_core(session, core, _CLOCK)
    return f"{int(text) // _KHZ_PER_MHZ} MHz" if text.isdigit() else UNKNOWN


def core_type(session: BoardSession, core: int = 0) -> str:
    """Return a core's type, such as "cortex-a76", with its capacity relative to the fastest (1024), or "unknown"."""
    midr, capacity = (_of_core(session, core, name) for name in (_MIDR, _CAPACITY))
    name = core_name(int(midr, 16)) if midr != UNKNOWN else ""
    share = f"capacity {capacity}" if capacity != UNKNOWN else ""
    return ", ".join(filter(None, (name, share))) or UNKNOWN


def temperature(session: BoardSession) -> str:
    """Return the temperature of the first thermal zone, such as "48.5 C", or "unknown"."""
    text = _first_line(session, _TEMPERATURE)
    return f"{int(text) / _MILLIDEGREES:.1f} C" if text.lstrip("-").isdigit() else UNKNOWN


def _of_core(session: BoardSession, core: int, name: str) -> str:
    return _first_line(session, f"{_CPU}/cpu{core}/{name}")


def _first_line(session: BoardSession, path: str) -> str:
    """Return the first line of a file on the board, or "unknown", as in containers and virtual machines."""
    try:
        with session.guard():
            content = bytes(session.function("tvm.rpc.server.download")(path))
    except ModelError:
        return UNKNOWN
    # The server reads as many bytes as the size of the file says (in sysfs, a page), and pads with zeros.
    return content.partition(b"\n")[0].partition(b"\0")[0].decode() or UNKNOWN
