# SPDX-License-Identifier: Apache-2.0
"""Vela's configuration: system configuration, memory mode and options, in Vela's text format."""

import configparser
import functools
import importlib.metadata
import math
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from arm_ext.common.errors import UsageError
from arm_ext.common.names import near
from arm_ext.target.npu import Accelerator

# Address width of a family in bits (Vela's architecture_features.py); limits the arena if no other limit is given.
_ADDRESS_BITS = {"u55": 32, "u65": 40, "u85": 40}

_HZ_PER_MHZ = 1e6


@dataclass(frozen=True)
class VelaOptions:
    """Vela's options; None stands for the accelerator's default.

    Attributes:
        system_config: Name of a [System_Config.…] section.
        memory_mode: Name of a [Memory_Mode.…] section.
        config: Path of a vela.ini with both sections, in place of Vela's own file.
        arena_cache_size: Target for SRAM use in bytes, unless the memory mode has a smaller limit.
        optimise: "Performance", or "Size" for the smallest arena.
        separate_io: Whether inputs and outputs have their own regions, which makes a COP2 container.
    """

    system_config: str | None = None
    memory_mode: str | None = None
    config: Path | None = None
    arena_cache_size: int | None = None
    optimise: Literal["Performance", "Size"] = "Performance"
    separate_io: bool = False


@dataclass(frozen=True)
class VelaConfiguration:
    """Vela's options with the accelerator's defaults filled in.

    Attributes:
        system_config: Name of the system configuration.
        memory_mode: Name of the memory mode.
        system: Vela's text for the accelerator, with all sections of the configuration file.
        compiler: Vela's text for the compiler options.
        core_mhz: The NPU's clock in the system configuration, in MHz.
    """

    system_config: str
    memory_mode: str
    system: str
    compiler: str
    core_mhz: float


def configuration(npu: Accelerator, options: VelaOptions) -> VelaConfiguration:
    """Return Vela's configuration for an accelerator.

    Raises:
        UsageError: A configuration file, or a section in it, does not exist or is malformed.
    """
    path = options.config or _own()
    system_config = options.system_config or npu.system_config
    memory_mode = options.memory_mode or npu.memory_mode
    ini = _read(path)
    sections = _sections(path, ini, system_config, memory_mode)
    limits = [_arena_cache_size(path, sections, memory_mode), options.arena_cache_size]
    limit = min((size for size in limits if size is not None), default=1 << _ADDRESS_BITS[npu.family])
    header = (
        f"[architecture]\nmacs={npu.macs // npu.cores}\ncores={npu.cores}\n"
        f"[vela]\nsystem_config_name={system_config}\nmemory_mode_name={memory_mode}\n"
    )
    compiler = _compiler_options(options, limit)
    clock = _clock(path, sections, system_config)
    return VelaConfiguration(system_config, memory_mode, header + ini, compiler, clock / _HZ_PER_MHZ)


def pairs(npu: Accelerator) -> tuple[tuple[str, str], ...]:
    """Return an accelerator's system configurations in Vela's own file, each with its compatible memory modes.

    A mode whose arena lies in a memory that cannot be written, such as flash, does not fit.
    """
    path = _own()
    parser = configparser.ConfigParser(interpolation=None)
    parser.read_string(_read(path), str(path))
    systems = [name for name in _names(parser, "System_Config") if f"_{npu.family.upper()}_" in name]
    return tuple(
        (system, mode)
        for system in systems
        for mode in _names(parser, "Memory_Mode")
        if _writable(path, parser, system, _inherited(path, parser, f"Memory_Mode.{mode}", "arena_mem_area"))
    )


def _names(parser: configparser.ConfigParser, kind: str) -> list[str]:
    return [section.split(".", 1)[1] for section in parser.sections() if section.startswith(f"{kind}.")]


def _writable(path: Path, parser: configparser.ConfigParser, system: str, port: str | None) -> bool:
    """Whether the NPU can write to the memory behind a port such as Axi1."""
    section = f"System_Config.{system}"
    memory = _inherited(path, parser, section, f"{port}_port")
    return _inherited(path, parser, section, f"{memory}_max_writes") != "0"


def _read(path: Path) -> str:
    """Return the text of a configuration file."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # opening a named pipe would block
            raise UsageError(f"{path}: Vela's configuration must be a file, and this is not one")
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path}: Vela's configuration cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: Vela's configuration is not a text file: {error}") from None


@functools.cache
def _own() -> Path:
    """Return the path of Vela's own configuration, cached since the search takes longer than a small compile."""
    files = importlib.metadata.files("ethos-u-vela") or ()
    return Path(str(next(f for f in files if f.match("config_files/Arm/vela.ini")).locate()))


def _sections(path: Path, ini: str, system_config: str, memory_mode: str) -> configparser.ConfigParser:
    """Parse a configuration, and check that it has both sections."""
    parser = configparser.ConfigParser(interpolation=None)  # as Vela parses it
    try:
        parser.read_string(ini, str(path))
    except configparser.Error as error:
        reason = " ".join(str(error).split())
        raise UsageError(f"{path}: Vela's configuration is malformed: {reason}") from None
    for kind, name in (("System_Config", system_config), ("Memory_Mode", memory_mode)):
        if f"{kind}.{name}" not in parser:
            known = near(name, _names(parser, kind))
            raise UsageError(f"{path}: Vela's configuration has no [{kind}.{name}]; {known}")
    return parser


def _clock(path: Path, parser: configparser.ConfigParser, system_config: str) -> float:
    """Return the NPU's clock in Hz."""
    section = f"System_Config.{system_config}"
    text = _inherited(path, parser, section, "core_clock")
    if text is None:
        raise UsageError(f"{path}: Vela's configuration has no core_clock in [{section}]")
    try:
        clock = float(text)
    except ValueError:
        clock = math.nan
    if not 0 < clock < math.inf:
        raise UsageError(
            f"{path}: core_clock={text} of [{section}] is not a clock frequency in Hz, such as 1e9"
        )
    return clock


def _arena_cache_size(path: Path, parser: configparser.ConfigParser, memory_mode: str) -> int | None:
    """Return the memory mode's limit of the arena in bytes; None if it has no limit."""
    section = f"Memory_Mode.{memory_mode}"
    text = _inherited(path, parser, section, "arena_cache_size")
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal()):
        raise UsageError(f"{path}: arena_cache_size={text} of [{section}] is not a number of bytes")
    return int(text)


def _inherited(path: Path, parser: configparser.ConfigParser, section: str, key: str) -> str | None:
    """Return the value of a key in a section, or in the sections that it inherits from; None if it is missing."""
    seen = [section]
    while key not in parser[seen[-1]]:
        parent = parser[seen[-1]].get("inherit")
        if parent is None:
            return None
        if parent in seen:
            raise UsageError(f"{path}: [{section}] inherits from itself: {' from '.join([*seen, parent])}")
        if parent not in parser:
            raise UsageError(f"{path}: [{seen[-1]}] inherits from [{parent}], which does not exist")
        seen.append(parent)
    return parser[seen[-1]][key]


def _compiler_options(options: VelaOptions, arena_limit: int) -> str:
    separate = "separate_io_regions=true\n" if options.separate_io else ""
    return (
        f"[compiler]\nenable_db=true\noutput_format=Raw\ncop_format={'COP2' if options.separate_io else 'COP1'}\n"
        f"[scheduler]\noptimize={options.optimise}\narena_size_limit={arena_limit}\ndisable_feature=\n{separate}"
        "cpu_tensor_alignment=16\ntensor_allocator=HillClimb\n[graph]\n"
    )
