# SPDX-License-Identifier: Apache-2.0
"""The named CPU profiles that --target takes: core, features after --mattr, and a QEMU CPU that runs them."""

import functools
import json
import platform
import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from arm_ext.common.errors import EnvError, UsageError
from arm_ext.common.names import near
from schedules.cores import A64, CORES, MICROCONTROLLERS, X86_64, Core, InstructionSet, microcontroller_isa

if TYPE_CHECKING:
    import tvm

AARCH64 = "aarch64-linux-gnu"

FAMILY = "armv8-a+"
"""Name for --target of the family of all Armv8-A cores with Linux; `family.py` has the family's levels."""

NEON_BITS = 128
"""Bits of a vector register without SVE."""

STACK_BITS = 64
"""Alignment of the stack pointer of a Cortex-M (AAPCS32)."""

# The instruction-set features that --mattr can change, profiles list and the ISA check distinguishes, by LLVM's
# names. LLVM's other features of a CPU (tuning, system registers) do not change a model's instructions.
ISA_FEATURES = frozenset(
    {
        *("aes", "altnzcv", "bf16", "complxnum", "crc", "dotprod", "flagm", "fp16fml", "fptoint", "fullfp16"),
        *(
            "i8mm",
            "jsconv",
            "lse",
            "pauth",
            "rcpc",
            "rcpc-immo",
            "rdm",
            "sha2",
            "sha3",
            "sm4",
            "sme",
            "sve",
            "sve2",
        ),
    }
)

# Features that LLVM's CPUs of C1 have and no profile lists. They are switched off, as LLVM would use their
# instructions: those of MOPS copy and fill memory, and need Linux 6.5.
_LEFT_OUT = frozenset({"mops"})

# The same for Cortex-M: `vfp2sp` is the single-precision FPU (FPv4), `fp-armv8d16sp` its rounding instructions (FPv5).
MICROCONTROLLER_FEATURES = frozenset(
    {"dsp", "fp-armv8d16sp", "fp64", "fullfp16", "hwdiv", "lob", "mve", "mve.fp", "vfp2sp"}
)

# LLVM's architecture of a Cortex-M. A triple has four parts: for one of three, LLVM knows no EABI, and calls routines
# by names and registers that libgcc does not use.
_M_ARCHITECTURES = {
    "cortex-m0plus": "thumbv6m",
    "cortex-m3": "thumbv7m",
    "cortex-m4": "thumbv7em",
    "cortex-m7": "thumbv7em",
    "cortex-m33": "thumbv8m.main",
    "cortex-m55": "thumbv8.1m.main",
    "cortex-m85": "thumbv8.1m.main",
}

# CPUs without SVE of qemu-aarch64 7.2, those with the fewest features first (its target/arm/cpu64.c); `max` has all
# others.
_QEMU_CPUS = {
    "cortex-a72": frozenset({"aes", "crc", "sha2"}),
    "cortex-a76": frozenset({"aes", "crc", "dotprod", "fullfp16", "lse", "rcpc", "rdm", "sha2"}),
}
SME_BITS = (128, 256, 512)
"""Lengths of the vectors of SME that boards are emulated with."""
NARROW_SVE = "sve128=on,sve256=off,sve512=off"
"""The part of QEMU's -cpu for SVE with vectors of 128 bits."""
_QEMU_SVE = {128: NARROW_SVE, 256: "sve256=on,sve512=off"}

# LLVM's name of the CPU with an architecture's minimum of features.
_GENERIC_CPU = {"aarch64": "generic", "x86_64": "x86-64", "arm": "generic"}


# The instruction sets of Linux hosts, by `uname -m`.
_MACHINES = {isa.machine: isa for isa in (A64, X86_64)}


@dataclass(frozen=True)
class Profile:
    """A CPU profile.

    A core with SVE has it in its profile, and LLVM then emits SVE code of its own accord; `--mattr=-sve,-sve2`
    keeps to NEON.

    Attributes:
        name: Name for --target, such as "raspberry-pi-5".
        core: The core, with the features that --mattr left.
        triple: LLVM triple.
        qemu_cpu: `qemu-aarch64 -cpu` with at least the features; None where the machine itself runs the code, and for
            a Cortex-M.
        note: Description in one line.
    """

    name: str
    core: Core
    triple: str
    qemu_cpu: str | None
    note: str

    @property
    def features(self) -> tuple[str, ...]:
        """LLVM feature names, sorted."""
        return self.core.features

    @property
    def code_features(self) -> frozenset[str]:
        """The features that `isa.check_isa` distinguishes."""
        narrow = not self.core.is_microcontroller or self.triple.startswith("thumbv6m")
        return frozenset(self.features) | (frozenset() if narrow else {"thumb2"})

    def tvm_target(self, *, optimised: bool = True) -> "tvm.target.Target":
        """Return the TVM target: mcpu, and each feature enabled or disabled explicitly.

        Args:
            optimised: Whether LLVM optimises.
        """
        own = _llvm_features(self.triple, self.core.llvm_cpu)
        implied = own & (_known_features(self.core.isa) | _LEFT_OUT)
        absent = sorted(implied - set(self.features))
        config: dict[str, Any] = {
            "kind": "llvm",
            "mtriple": self.triple,
            "mcpu": self.core.llvm_cpu,
            "mattr": [*(f"+{f}" for f in self.features), *(f"-{f}" for f in absent)],
            "keys": ["arm_cpu", "cpu"] if self.triple == AARCH64 else ["cpu"],
        }
        if self.core.is_microcontroller:
            # Float registers without an FPU, which MVE would have, end LLVM 22 in selecting instructions.
            config["mattr"] += [] if _has_fpu(self.features) else ["-fpregs"]
            config |= {"mfloat-abi": "hard" if _has_fpu(self.features) else "soft"}
            # Buffers on the stack are aligned to it; beyond 64 bits, a function has to align its stack pointer first.
            config |= {"vector-width": NEON_BITS if self.core.isa.vector_bytes else STACK_BITS}
        return _target(config if optimised else config | {"opt-level": 0})


# Common names of boards → names of their profiles.
_OTHER_NAMES = {
    short: f"raspberry-pi-{number}"
    for number in (4, 5)
    for short in (f"rpi{number}", f"rpi-{number}", f"pi{number}")
}


def _meant(name: str) -> str:
    if name.lower() in _OTHER_NAMES:
        return f"did you mean {_OTHER_NAMES[name.lower()]}?"
    return near(name, [*PROFILES, "host", FAMILY])


def resolve(name: str, mattr: str | None = None, *, library: bool = False) -> Profile:
    """Return the profile with a name, with features added and removed.

    Adding a feature adds what it implies, removing one removes what implies it (without sve no sve2).

    Args:
        name: One of `PROFILES`, or "host" for the machine at hand.
        mattr: Changes such as "+i8mm,-sve", applied from left to right.
        library: Whether a C library is compiled, which microcontrollers run, too.

    Raises:
        UsageError: Unknown name or feature (near ones are listed), malformed `mattr`, or a feature that the core of a
            microcontroller cannot have; or a microcontroller for what needs Linux.
        EnvError: "host" on a system other than Linux on aarch64 or x86-64.
    """
    if name == FAMILY:
        raise UsageError(
            f"target {FAMILY} is a family, for which `compile` makes packages; name one core here, such as arm"
        )
    if name not in {*PROFILES, "host"}:
        raise UsageError(f"unknown target {name!r}; {_meant(name)}")
    profile = host() if name == "host" else PROFILES[name]
    if profile.core.is_microcontroller and not library:
        raise UsageError(
            f"target {name} is a microcontroller, without Linux and TVM's runtime; it runs C libraries: "
            f"arm-ext compile MODEL --target {name} --emit c-library"
        )
    features = set(profile.features)
    for change in mattr.split(",") if mattr else ():
        sign, feature = change[:1], change[1:]
        if sign not in {"+", "-"}:
            raise UsageError(f"--mattr: {change!r} begins with neither + nor -; write it like +i8mm,-sve")
        known = _known_features(profile.core.isa)
        if feature not in known:
            raise UsageError(f"--mattr: unknown feature {feature!r}; {near(feature, known)}")
        if sign == "+" and profile.core.is_microcontroller and feature not in profile.features:
            with_it = [other.name for other in PROFILES.values() if feature in other.features]
            raise UsageError(f"--mattr: no {name} has {feature}; {', '.join(with_it)} can have it")
        if sign == "+":
            features |= _implied(profile, feature)
        else:
            features -= {f for f in features if feature in _implied(profile, f)}
            features -= {"fp64"} if profile.core.is_microcontroller and not _has_fpu(features) else set()
    if "mve" in features and not _has_fpu(features):
        raise UsageError(
            "--mattr: MVE code without an FPU cannot be compiled; leave MVE out, too: -mve,-vfp2sp"
        )
    return _with_features(profile, features)


def with_features(name: str, features: Iterable[str]) -> Profile:
    """Return a profile of `PROFILES` with exactly these features."""
    return _with_features(PROFILES[name], features)


@functools.cache
def host() -> Profile:
    """Return this machine's profile as LLVM detects it, with the generic core's caches if it is not in CORES.

    Raises:
        EnvError: The system is not Linux on aarch64 or x86-64.
    """
    if sys.platform != "linux" or platform.machine() not in _MACHINES:
        raise EnvError(
            f"target host needs Linux on aarch64 or x86_64, not {sys.platform} on {platform.machine()}; "
            "name another target, such as arm"
        )
    cpu = str(_global("tvm.codegen.llvm.GetHostCPUName")())
    return host_profile(platform.machine(), cpu, [name for name, present in _host_flags().items() if present])


def baseline_host() -> Profile:
    """Return this machine's profile without optional features, so that floats agree between machines."""
    machine = host().core.isa.machine
    cpu = _GENERIC_CPU[machine]
    return host_profile(machine, cpu, _llvm_features(host().triple, cpu))


def host_profile(machine: str, cpu: str, features: Iterable[str]) -> Profile:
    """Return the profile of a machine (`uname -m`) with LLVM's CPU name and the detected features."""
    triple = f"{machine}-linux-gnu"
    base = CORES.get(cpu, CORES["generic-dotprod"])
    source = base.source if cpu in CORES else f"LLVM's host detection; widths and caches of {base.name}"
    core = replace(base, name=cpu, llvm_cpu=cpu, source=source, isa=_MACHINES[machine])
    blank = Profile("host", core, triple, qemu_cpu=None, note=f"this machine: {machine}, {cpu}")
    return _with_features(blank, _known_features(core.isa) & set(features))


def _with_features(profile: Profile, features: Iterable[str]) -> Profile:
    """Return the profile with other features, and the QEMU CPU for them."""
    ordered = tuple(sorted(features))
    if profile.core.is_microcontroller:
        core = replace(profile.core, features=ordered, isa=microcontroller_isa(ordered))
        return _m_profile(profile.name, core, profile.note)
    bits = profile.core.vector_bits if "sve" in ordered else NEON_BITS
    core = replace(profile.core, features=ordered, vector_bits=bits)
    return replace(profile, core=core, qemu_cpu=None if profile.name == "host" else _qemu_cpu(core))


def _qemu_cpu(core: Core) -> str:
    """Return QEMU's CPU that has the core's features and the fewest others."""
    wanted = set(core.features)
    for cpu, features in _QEMU_CPUS.items():
        if wanted <= features:
            return cpu
    sve = _QEMU_SVE[core.vector_bits] if "sve" in wanted else "sve=off"
    return f"max,{sve},{sme_cpu(core.outer_products.bits) if 'sme' in wanted else 'sme=off'}"


def sme_cpu(bits: int) -> str:
    """Return the part of QEMU's -cpu for SME with vectors of one length."""
    return ",".join(f"sme{each}={'on' if each == bits else 'off'}" for each in SME_BITS)


def _profile(name: str, core: str, note: str) -> Profile:
    return Profile(name, CORES[core], AARCH64, _qemu_cpu(CORES[core]), note)


def _m_profile(name: str, core: Core, note: str) -> Profile:
    """Return the profile of a Cortex-M, whose triple's last part says how floats are passed."""
    abi = "eabihf" if _has_fpu(core.features) else "eabi"
    triple = f"{_M_ARCHITECTURES[core.name]}-none-none-{abi}"
    return Profile(name, replace(core, vector_bits=8 * core.isa.vector_bytes), triple, None, note)


def _has_fpu(features: Iterable[str]) -> bool:
    return "vfp2sp" in features


@functools.cache
def _host_flags() -> dict[str, bool]:
    """Return the features of this machine's architecture that LLVM knows: name → whether it is present."""
    flags = _global("tvm.codegen.llvm.GetHostCPUFeatures")()
    return {str(name): bool(present) for name, present in flags.items()}


def _known_features(isa: InstructionSet) -> frozenset[str]:
    if isa.machine == "arm":
        return MICROCONTROLLER_FEATURES
    return ISA_FEATURES if isa.machine == A64.machine else frozenset(_host_flags())


@functools.cache
def _llvm_features(triple: str, cpu: str, *mattr: str) -> frozenset[str]:
    """Return every feature that LLVM enables for a CPU and mattr, including tuning flags."""
    target = _target({"kind": "llvm", "mtriple": triple, "mcpu": cpu, "mattr": list(mattr)})
    return frozenset(str(name) for name in _global("target.llvm_get_cpu_features")(target))


def _implied(profile: Profile, feature: str) -> frozenset[str]:
    """Return a feature and those that LLVM enables with it."""
    triple, isa = profile.triple, profile.core.isa
    generic = _GENERIC_CPU[isa.machine]
    added = _llvm_features(triple, generic, f"+{feature}") - _llvm_features(triple, generic)
    return (added & _known_features(isa)) | {feature}


def _target(config: dict[str, Any]) -> "tvm.target.Target":
    return _made(json.dumps(config))


# Cached, so that kernels are built for and looked up by the same object.
@functools.cache
def _made(config: str) -> "tvm.target.Target":
    import tvm  # not imported above: TVM takes seconds to load, and listing profiles does not need it

    return tvm.target.Target(json.loads(config))


def _global(name: str) -> Any:
    import tvm  # as in `_made`

    return tvm.get_global_func(name)


# Name for --target → profile, without "host".
PROFILES: dict[str, Profile] = {
    profile.name: profile
    for profile in (
        _profile(
            "arm", "generic-dotprod", "Armv8.2-A with dotprod and fp16, any core since cortex-a55 and a76"
        ),
        *(_profile(name, name, "any chip with this core") for name in CORES if name != "generic-dotprod"),
        *(
            _m_profile(name, core, "any chip with this core: a C library without an operating system")
            for name, core in MICROCONTROLLERS.items()
        ),
        _profile("raspberry-pi-4", "cortex-a72", "BCM2711"),
        _profile("raspberry-pi-5", "cortex-a76", "BCM2712"),
        _profile("graviton2", "neoverse-n1", "AWS c6g, m6g, r6g, t4g"),
        _profile("graviton3", "neoverse-v1", "AWS c7g, m7g, r7g"),
        _profile("graviton4", "neoverse-v2", "AWS c8g, m8g, r8g"),
    )
}
