# SPDX-License-Identifier: Apache-2.0
"""The registers that commands set and operations read."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from arm_ext.ethosu.model.commands import ADDRESS_BITS, fields
from arm_ext.ethosu.model.errors import StreamError
from arm_ext.target.npu import Family


@dataclass
class Registers:
    """The register values that the commands so far have set.

    Attributes:
        family: The family of accelerators that the registers belong to.
        values: Name of a register → its value, parameter and data together.
        read: Fields that were read since this was last cleared, "register.field" → value.
    """

    family: Family
    values: dict[str, int] = field(default_factory=dict)
    read: dict[str, int] = field(default_factory=dict)

    def get(self, name: str, key: str = "value") -> int:
        """Return a field of a register, unsigned.

        Raises:
            StreamError: No command has set the register.
        """
        if name not in self.values:
            raise StreamError(f"an operation uses NPU_SET_{name.upper()}, which no command has set")
        first, width = fields(self.family)[name][key]
        value = (self.values[name] >> first) & ((1 << width) - 1)
        self.read[f"{name}.{key}"] = value
        return value

    @contextlib.contextmanager
    def unrecorded(self) -> Iterator[None]:
        """Open a scope in which reads of fields are not recorded in `read`."""
        kept = dict(self.read)
        yield
        self.read.clear()
        self.read.update(kept)

    def address(self, name: str) -> int:
        """Return a 40-bit address or length."""
        return self.get(name, "high") << 32 | self.get(name, "low")

    def stride(self, name: str) -> int:
        """Return a 40-bit stride, signed."""
        return signed(self.address(name), ADDRESS_BITS)

    def size(self, name: str) -> int:
        """Return a size; the register holds the size minus 1."""
        return self.get(f"{name}_m1") + 1


def signed(value: int, bits: int) -> int:
    """Return the two's complement number in the low `bits` bits of `value`."""
    return value - (1 << bits) if value >> (bits - 1) & 1 else value


Input = Literal["ifm", "ifm2"]
