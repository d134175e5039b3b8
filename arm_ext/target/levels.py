# SPDX-License-Identifier: Apache-2.0
"""Instruction-set levels: what code may use, and an emulated CPU with just that."""

from collections.abc import Sequence
from dataclasses import dataclass

from arm_ext.common.errors import UsageError
from arm_ext.common.names import near
from arm_ext.target.profiles import NARROW_SVE, PROFILES, SME_BITS, Profile, resolve, sme_cpu

ALL = "all"
"""Name that stands for all levels."""


@dataclass(frozen=True)
class Level:
    """An instruction-set level.

    QEMU has no switch for most features: `i8mm` is emulated with all that NEON has, the levels of SVE with SVE2, and
    those of SME with SME2. That a program uses no instruction above its profile is checked when it is linked
    (`isa.check_isa`).

    Attributes:
        name: Name of the level, such as "sve-256"; that of a profile for the level of that profile's core.
        profile: What code for the level is compiled for.
        mattr: The change of the profile's features, as --mattr takes it.
        cpu: QEMU's -cpu.
    """

    name: str
    profile: Profile
    mattr: str | None
    cpu: str

    @property
    def target(self) -> str:
        """Name of the profile."""
        return self.profile.name


def _level(name: str, target: str, mattr: str | None = None, cpu: str | None = None) -> Level:
    profile = resolve(target, mattr)
    if cpu is None:
        cpu = profile.qemu_cpu
    assert cpu is not None
    return Level(name, profile, mattr, cpu)


def levels() -> tuple[Level, ...]:
    """Return the levels, each with instructions or a length of vectors that the one before lacks.

    The level of SVE with 512 bits runs the code for 128: no core of `PROFILES` has such vectors, and all of our code
    leaves the length open.
    """
    return (
        _level("armv8-a", "cortex-a72"),
        _level("dotprod", "arm"),
        _level("i8mm", "neoverse-n2", "-sve"),
        _level("sve-128", "neoverse-n2"),
        _level("sve-256", "neoverse-v1"),
        _level("sve-512", "neoverse-n2", cpu="max,sve512=on,sme=off"),
        *(_level(f"sme-{bits}", "c1-pro", "+sme", f"max,{NARROW_SVE},{sme_cpu(bits)}") for bits in SME_BITS),
    )


def chosen(names: Sequence[str]) -> tuple[Level, ...]:
    """Return the levels with the given names, without repetitions.

    Args:
        names: Names of levels or of profiles, or "all".

    Raises:
        UsageError: There is no such level or profile, or it is of a core without Linux.
    """
    known = {level.name: level for level in levels()}
    found: dict[str, Level] = {}
    for name in names:
        if name == ALL:
            found |= known
        elif name in known:
            found[name] = known[name]
        elif name in PROFILES:
            found[name] = _level(name, name)
        else:
            raise UsageError(
                f"--targets: there is no level or profile {name!r}; {near(name, [ALL, *known, *PROFILES])}"
            )
    return tuple(found.values())
