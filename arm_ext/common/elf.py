# SPDX-License-Identifier: Apache-2.0
"""The ELF header of shared libraries."""

from pathlib import Path

from arm_ext.common.regular_file import UnreadableError, open_regular

# System V gABI, chapter 4: the identification of a 64-bit little-endian file, e_type at byte 16 and e_machine at 18.
_MAGIC = b"\x7fELF\x02\x01"
_TYPE, _MACHINE = slice(16, 18), slice(18, 20)
_SHARED = 3  # ET_DYN
_MACHINES = {183: "aarch64", 62: "x86_64"}


def machine_of(so: Path) -> str:
    """Return the machine that a shared library is for.

    Raises:
        UnreadableError: The file cannot be read, or is no shared library for a 64-bit Arm or x86 machine.
    """
    with open_regular(so) as file:
        header = file.read(_MACHINE.stop)
    machine = _MACHINES.get(int.from_bytes(header[_MACHINE], "little"))
    is_shared = int.from_bytes(header[_TYPE], "little") == _SHARED
    if not header.startswith(_MAGIC) or not is_shared or machine is None:
        raise UnreadableError(f"{so}: is not a shared library for aarch64 or x86_64")
    return machine
