# SPDX-License-Identifier: Apache-2.0
"""A family of cores for one package: instruction-set levels, of which a program uses the newest that its CPU has."""

from dataclasses import dataclass, replace

from arm_ext.target.profiles import FAMILY, Profile, with_features

# Feature → its flags in AT_HWCAP and AT_HWCAP2 of getauxval(3) (Linux's arch/arm64/include/uapi/asm/hwcap.h).
_FLAGS = {"dotprod": (1 << 20, 0), "fullfp16": (1 << 9 | 1 << 10, 0), "i8mm": (0, 1 << 13)}


@dataclass(frozen=True)
class FamilyLevel:
    """An instruction-set level of a family of cores.

    Attributes:
        name: Name of the level, such as "dotprod".
        profile: Target of the level's code, with the features that the level's kernels need and no others.
    """

    name: str
    profile: Profile

    @property
    def flags(self) -> tuple[int, int]:
        """The flags in AT_HWCAP and AT_HWCAP2 that a CPU needs."""
        hwcap = hwcap2 = 0
        for feature in self.profile.features:
            hwcap |= _FLAGS[feature][0]
            hwcap2 |= _FLAGS[feature][1]
        return hwcap, hwcap2


def family_levels() -> tuple[FamilyLevel, ...]:
    """Return the instruction-set levels of `FAMILY`, the oldest first; each has the features of the level before.

    A level's kernels are chosen for the core that is named: Raspberry Pi 4 has the first, Raspberry Pi 5 and phones
    since 2018 the second, servers since Graviton3 and phones since 2022 the third. SVE is left out, as it has no faster
    kernels at the lengths that these cores have.
    """
    levels = (
        ("armv8-a", "cortex-a72", ()),
        ("dotprod", "arm", ("dotprod", "fullfp16")),
        ("i8mm", "neoverse-n2", ("dotprod", "fullfp16", "i8mm")),
    )
    return tuple(FamilyLevel(name, with_features(profile, features)) for name, profile, features in levels)


def family_profile() -> Profile:
    """Return the profile of the features that all levels share; `qemu_cpu` is that of the newest level."""
    first, *_, newest = (level.profile for level in family_levels())
    return replace(first, name=FAMILY, qemu_cpu=newest.qemu_cpu, note="any 64-bit Arm core with Linux")
