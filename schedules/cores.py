# SPDX-License-Identifier: Apache-2.0
"""The supported Arm cores: features, caches and widths, each number with its source."""

from collections.abc import Collection
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Cache:
    """One cache level as seen by one core.

    Attributes:
        size: Size in bytes.
        line: Size of a cache line in bytes.
        source: The document that the sizes are from; for a configurable size, also the assumed configuration.
    """

    size: int
    line: int
    source: str


@dataclass(frozen=True)
class InstructionSet:
    """An instruction set that kernels are written for.

    Attributes:
        name: Name in messages.
        machine: Architecture under the name that `uname -m` gives it; "arm" for the 32-bit cores.
        vector_bytes: Size of a vector register in bytes; 0 without vectors.
        vector_registers: Number of vector registers.
        scalar_registers: Number of general registers that a function may hold values in.
        source: The document that the numbers are from.
        has_fpu: Whether it has instructions for binary32.
        rounds: Whether generic code rounds binary32 half to even by an instruction.
    """

    name: str
    machine: str
    vector_bytes: int
    vector_registers: int
    scalar_registers: int
    source: str
    has_fpu: bool = True
    rounds: bool = False

    @property
    def has_shuffles(self) -> bool:
        """Whether two vectors are permuted by an instruction, and not lane by lane."""
        return self.vector_bytes > 0 and self.name != "mve"


_A64_SOURCE = "Arm ARM DDI 0487: V0 to V31; X0 to X30 without X18 and FP"
A64 = InstructionSet("a64", "aarch64", 16, 32, 29, _A64_SOURCE, rounds=True)
X86_64 = InstructionSet("x86-64", "x86_64", 16, 16, 15, "System V ABI for AMD64: XMM0 to XMM15, without RSP")
_AAPCS32 = "R0 to R12 and LR (AAPCS32)"
MVE = InstructionSet("mve", "arm", 16, 8, 14, f"Armv8-M ARM DDI 0553: Q0 to Q7 of Helium; {_AAPCS32}")
DSP = InstructionSet("dsp", "arm", 0, 0, 14, f"Armv7-M ARM DDI 0403: the DSP extension; {_AAPCS32}")
THUMB = InstructionSet("thumb", "arm", 0, 0, 14, f"Armv6-M ARM DDI 0419, Armv7-M ARM DDI 0403; {_AAPCS32}")


def microcontroller_isa(features: Collection[str]) -> InstructionSet:
    """Return the instruction set of a Cortex-M with some of LLVM's features."""
    isa = MVE if "mve" in features else DSP if "dsp" in features else THUMB
    rounds = ("mve.fp" if isa is MVE else "fp-armv8d16sp") in features
    return replace(isa, has_fpu="vfp2sp" in features, rounds=rounds)


@dataclass(frozen=True)
class OuterProductUnit:
    """A unit for SME, which a cluster of cores may share: no model of LLVM's schedules SME (llvm-mca 19 to 22).

    Attributes:
        bits: Length of its vectors in bits.
        s8_cycles: Cycles between two SMOPA on different tiles.
        f32_cycles: Cycles between two FMOPA of float32 on different tiles.
        vector_cycles: Cycles between two operations on vectors in streaming mode, loads and stores apart.
        start_cycles: Cycles to enter and leave streaming mode.
        source: Where the numbers are from.
    """

    bits: int
    s8_cycles: float
    f32_cycles: float
    vector_cycles: float
    start_cycles: float
    source: str


_M4_UNIT = OuterProductUnit(
    bits=512,
    s8_cycles=2,
    f32_cycles=1,
    vector_cycles=4,
    start_cycles=200,
    source="Measurements of an Apple M4 by others (arXiv 2409.18779; m4-sme-exploration): with four tiles in flight "
    "2,009 GFLOP/s by FMOPA of float32, so that 3.92 GHz are one a cycle; SMOPA of int8 half as many; 31.4 GFLOP/s by "
    "FMLA on vectors. The cycles to enter and leave streaming mode are assumed",
)
_OTHER_UNIT = replace(
    _M4_UNIT,
    vector_cycles=1,
    source="No measurement of another unit is published: products as Apple's, one operation on vectors a cycle assumed",
)


@dataclass(frozen=True)
class Core:
    """The properties of a core that schedules and cost models use.

    Attributes:
        name: Arm's name in lower case, such as "cortex-a76"; "generic-dotprod" for the `arm` profile.
        llvm_cpu: CPU for LLVM's option -mcpu.
        features: LLVM names of the core's features ("dotprod", "fullfp16"), sorted: those beyond Armv8.0-A with NEON,
            or, of a Cortex-M, those beyond its architecture's base.
        vector_bits: Width of an SVE vector in bits; 128 without SVE.
        l1d: L1 data cache.
        l2: L2 cache (private or the core's share).
        issue_width: Maximum number of instructions dispatched per cycle, which limits the estimated IPC.
        vector_pipes: Number of 128-bit vector instructions per cycle: arithmetic, and stores, as they use a vector
            pipe.
        mca_cpu: CPU for llvm-mca's option -mcpu, whose scheduling model stands in for this core; "" where LLVM has no
            model that can be believed.
        source: The manual that names the features and widths.
        isa: The instruction set.
        in_order: Whether the core issues instructions in program order.
        spare_registers: Number of vector registers by which LLVM's scheduler for the core moves loads ahead in
            straight-line code.
        loop_registers: Number of vector registers, in addition to those of a tile, by which LLVM's scheduler for the
            core moves loads and products ahead in loops: tiles without so many free registers have 2 to 14 stack
            accesses.
        fmla_latency: Cycles between two dependent FMLA on the same accumulator.
        dot_latency: Cycles between two dependent SDOT or SMMLA on the same accumulator.
        outer_products: The unit for SME of the core's cluster; used if the core's features have "sme".
    """

    name: str
    llvm_cpu: str
    features: tuple[str, ...]
    vector_bits: int
    l1d: Cache
    l2: Cache
    issue_width: int
    vector_pipes: int
    mca_cpu: str
    source: str
    isa: InstructionSet = A64
    in_order: bool = False
    spare_registers: int = 3
    loop_registers: int = 0
    # Software optimization guides of Neoverse N2 and Cortex-A76: ASIMD FP multiply accumulate.
    fmla_latency: int = 4
    # From LLVM's model of Neoverse N2; the software optimization guides give 1 cycle for dependent accumulations.
    dot_latency: int = 3
    outer_products: OuterProductUnit = _OTHER_UNIT

    @property
    def neon(self) -> bool:
        """Whether the core has the vector instructions of A64."""
        return self.isa.name == A64.name

    @property
    def is_microcontroller(self) -> bool:
        """Whether the core is a Cortex-M, which runs C libraries without an operating system."""
        return self.isa.machine == MVE.machine

    @property
    def lookup_cycles(self) -> float:
        """Cycles of 16 look-ups in a table of 256 bytes in registers: one TBL and three TBX of four registers each."""
        return self._by_llvm_mca.lookup

    def formula_ratio(self, *, floats: bool) -> float:
        """Return the cycles of code over those of the formulas by which kernels are chosen.

        It is larger than 1 where a vector operation takes both pipes, or instructions wait in order.

        Args:
            floats: Whether the code computes in float.
        """
        known = self._by_llvm_mca
        return known.floats if floats else known.integers

    @property
    def _by_llvm_mca(self) -> "_ByLlvmMca":
        return _BY_LLVM_MCA.get(self.name) or _BY_LLVM_MCA.get(self.mca_cpu) or _NOT_MODELLED


@dataclass(frozen=True)
class _ByLlvmMca:
    """What llvm-mca 19 says of code that runs on a core.

    Attributes:
        lookup: See `Core.lookup_cycles`; for two chains of look-ups beside each other, as a loop has them.
        floats, integers: See `Core.formula_ratio`; medians over nine float and ten int8 models of the zoo, of whose
            ratios four in five lie within 12 % of the median.
    """

    lookup: float
    floats: float = 1.0
    integers: float = 1.0


# By the name of a core, or else by its `mca_cpu`.
_BY_LLVM_MCA = {
    "cortex-a53": _ByLlvmMca(13.0, integers=1.42),
    "cortex-a55": _ByLlvmMca(13.0, integers=1.56),
    "cortex-a72": _ByLlvmMca(20.0, floats=2.01, integers=1.33),
    "cortex-a73": _ByLlvmMca(20.0, floats=2.01, integers=1.33),
    "cortex-a510": _ByLlvmMca(12.0, floats=1.55, integers=1.75),
    "neoverse-n1": _ByLlvmMca(10.5),
    "neoverse-n2": _ByLlvmMca(15.5),
    "neoverse-v1": _ByLlvmMca(9.0),
    "neoverse-v2": _ByLlvmMca(5.5),
}

_NOT_MODELLED = _ByLlvmMca(64.0)
"""Cycles for a Cortex-M, which has no look-up by vectors of bytes: four instructions for each of 16 elements."""

_LOADS_FIRST = 4
"""`spare_registers` of cores that LLVM schedules as a Cortex-A57, loads first (llvm/lib/Target/AArch64,
AArch64Processors.td)."""

_BRINGS_FORWARD = 4
"""`loop_registers` of Cortex-A55 and Neoverse N1. By llvm-mca the tile of 6 x 3 vectors, which has room for them, takes
0.85 to 0.89 cycles an FMLA on the A55, where that of 7 x 3 takes 0.79 to 0.94."""

_KIB = 1024
_MIB = 1024 * _KIB
_LINE = 64  # bytes; CCSIDR_EL1.LineSize in the TRM of every core below


def _cache(size: int, source: str) -> Cache:
    return Cache(size=size, line=_LINE, source=source)


def _core(
    name: str,
    features: tuple[str, ...],
    l1d: Cache,
    l2: Cache,
    issue_width: int,
    vector_pipes: int,
    mca_cpu: str,
    source: str,
    vector_bits: int = 128,
    *,
    in_order: bool = False,
    spare_registers: int = 3,
    loop_registers: int = 0,
    outer_products: OuterProductUnit = _OTHER_UNIT,
) -> Core:
    return Core(
        name,
        name,
        features,
        vector_bits,
        l1d,
        l2,
        issue_width,
        vector_pipes,
        mca_cpu,
        source,
        in_order=in_order,
        spare_registers=spare_registers,
        loop_registers=loop_registers,
        outer_products=outer_products,
    )


# Features that generated code may use. SME is not among them, even of cores that have it: --mattr=+sme asks for it. No
# board was at hand, and a cluster of cores shares one unit. The Cryptographic Extension is an option of every core, and
# the Raspberry Pi 4 lacks it: it is not counted on.
_ARMV8_0 = ("crc",)
_ARMV8_2 = ("crc", "dotprod", "fullfp16", "lse", "rdm")
_ARMV8_2_RCPC = ("crc", "dotprod", "fullfp16", "lse", "rcpc", "rdm")
_ARMV8_3 = {"complxnum", "jsconv", "pauth"}
_ARMV8_4 = {"bf16", "flagm", "fp16fml", "i8mm", "rcpc-immo"}
_ARMV8_4_SVE = tuple(sorted({*_ARMV8_2_RCPC, *_ARMV8_3, *_ARMV8_4, "sve"}))
_ARMV8_5 = {"altnzcv", "fptoint"}
_ARMV9_0 = tuple(sorted({*_ARMV8_4_SVE, *_ARMV8_5, "sve2"}))
_APPLE_M2 = tuple(sorted({*_ARMV8_2_RCPC, *_ARMV8_3, *_ARMV8_4, *_ARMV8_5}))
_APPLE_M1 = tuple(sorted({*_APPLE_M2} - {"bf16", "i8mm"}))

_GENERIC = Core(
    name="generic-dotprod",
    # LLVM's "generic" leaves plain loops rolled: DS-CNN fp32 takes 15.7 M instructions instead of 10.3 M.
    llvm_cpu="cortex-a76",
    features=_ARMV8_2,
    vector_bits=128,
    l1d=_cache(32 * _KIB, "the smallest L1D of cortex-a72 to cortex-x1 and of cortex-a55 as commonly built"),
    l2=_cache(256 * _KIB, "the smallest common private L2 of cortex-a76 and later"),
    issue_width=4,
    vector_pipes=2,
    mca_cpu="neoverse-n1",
    source="Arm ARM DDI 0487: crc, lse, rdm mandatory from Armv8.1-A, fp16 and dotprod options of Armv8.2-A. "
    "Width and vector pipes as cortex-a76, the first big core with both",
    spare_registers=_LOADS_FIRST,
)

# Sources: the core's Technical Reference Manual (TRM, with its number) and Software Optimization Guide (SOG).
_CORES = (
    _GENERIC,
    _core(
        name="cortex-a53",
        features=_ARMV8_0,
        l1d=_cache(32 * _KIB, "TRM DDI 0500: 8 to 64 KiB; 32 as in BCM2837"),
        l2=_cache(128 * _KIB, "a quarter of 512 KiB shared by four, as in BCM2837"),
        issue_width=2,
        vector_pipes=1,
        # In LLVM's model of the A53 results are written in order, and any instruction behind an FMLA waits for its 10
        # cycles: 12 FMLA with five additions between them take 42, and 8.5 in the model of the A55. Cycles of published
        # times on two boards are 0.25 to 1.10 of the A53 model's cycles, by dtype, and 0.81 to 1.26 of the A55 model's.
        mca_cpu="cortex-a55",
        source="TRM DDI 0500: in order, dual issue; two vector pipes of 64 bits",
        in_order=True,
    ),
    _core(
        name="cortex-a55",
        features=_ARMV8_2_RCPC,
        l1d=_cache(32 * _KIB, "TRM 100442: 16 to 64 KiB; 32 taken"),
        l2=_cache(128 * _KIB, "TRM 100442: none to 256 KiB, private; 128 taken"),
        issue_width=2,
        vector_pipes=1,
        mca_cpu="cortex-a55",
        source="TRM 100442; SOG EPM128372: in order, dual issue; two vector pipes of 64 bits",
        in_order=True,
        loop_registers=_BRINGS_FORWARD,
    ),
    _core(
        name="cortex-a72",
        features=_ARMV8_0,
        l1d=_cache(32 * _KIB, "TRM 100095: 32 KiB"),
        l2=_cache(256 * _KIB, "a quarter of 1 MiB shared by four, as in BCM2711 (Raspberry Pi 4)"),
        issue_width=3,
        vector_pipes=2,
        mca_cpu="cortex-a72",
        source="TRM 100095; SOG UAN 0016: decodes three instructions a cycle; vector pipes F0 and F1",
        spare_registers=_LOADS_FIRST,
    ),
    _core(
        name="cortex-a73",
        features=_ARMV8_0,
        l1d=_cache(32 * _KIB, "TRM 100048: 32 or 64 KiB; 32 taken"),
        l2=_cache(256 * _KIB, "TRM 100048: 256 KiB to 8 MiB; a quarter of 1 MiB shared by four taken"),
        issue_width=2,
        vector_pipes=2,
        mca_cpu="cortex-a73",
        source="TRM 100048: decodes two instructions a cycle; two vector pipes",
        spare_registers=_LOADS_FIRST,
    ),
    _core(
        name="cortex-a76",
        features=_ARMV8_2_RCPC,
        l1d=_cache(64 * _KIB, "TRM 100798: 64 KiB"),
        l2=_cache(512 * _KIB, "TRM 100798: 128 to 512 KiB, private; 512 as in BCM2712 (Raspberry Pi 5)"),
        issue_width=4,
        vector_pipes=2,
        mca_cpu="neoverse-n1",
        source="TRM 100798; SOG: dispatches four MOPs a cycle; vector pipes V0 and V1",
        spare_registers=_LOADS_FIRST,
    ),
    _core(
        name="cortex-a78",
        features=_ARMV8_2_RCPC,
        l1d=_cache(32 * _KIB, "TRM 101430: 32 or 64 KiB; 32 taken"),
        l2=_cache(256 * _KIB, "TRM 101430: 256 or 512 KiB, private; 256 taken"),
        issue_width=6,
        vector_pipes=2,
        mca_cpu="neoverse-n1",
        source="TRM 101430; SOG: dispatches six MOPs a cycle; vector pipes V0 and V1",
        spare_registers=_LOADS_FIRST,
    ),
    _core(
        name="cortex-a510",
        features=_ARMV9_0,
        l1d=_cache(32 * _KIB, "TRM 101604: 32 or 64 KiB; 32 taken"),
        l2=_cache(128 * _KIB, "TRM 101604: half of 256 KiB shared by a complex of two"),
        issue_width=3,
        vector_pipes=2,
        mca_cpu="cortex-a510",
        source="TRM 101604; SOG: in order, three instructions a cycle; two vector pipes, "
        "of 128 bits as in the larger configuration, which a complex of two shares",
        in_order=True,
    ),
    _core(
        name="cortex-a710",
        features=_ARMV9_0,
        l1d=_cache(32 * _KIB, "TRM 101800: 32 or 64 KiB; 32 taken"),
        l2=_cache(256 * _KIB, "TRM 101800: 256 or 512 KiB, private; 256 taken"),
        issue_width=5,
        vector_pipes=2,
        mca_cpu="neoverse-n2",
        source="TRM 101800; SOG: dispatches five MOPs a cycle; vector pipes V0 and V1",
    ),
    _core(
        name="cortex-a520",
        features=_ARMV9_0,
        l1d=_cache(32 * _KIB, "TRM 102517: 32 or 64 KiB; 32 taken"),
        l2=_cache(128 * _KIB, "TRM 102517: half of 256 KiB shared by a complex of two"),
        issue_width=3,
        vector_pipes=2,
        mca_cpu="cortex-a510",
        source="TRM 102517; SOG: in order, three instructions a cycle; two vector pipes, which a complex of two shares",
        in_order=True,
    ),
    _core(
        name="cortex-a715",
        features=_ARMV9_0,
        l1d=_cache(32 * _KIB, "TRM 101590: 32 or 64 KiB; 32 taken"),
        l2=_cache(256 * _KIB, "TRM 101590: 128 to 512 KiB, private; 256 taken"),
        issue_width=5,
        vector_pipes=2,
        mca_cpu="neoverse-n2",
        source="TRM 101590; SOG: dispatches five MOPs a cycle; vector pipes V0 and V1, as cortex-a710",
    ),
    _core(
        name="cortex-a720",
        features=_ARMV9_0,
        l1d=_cache(32 * _KIB, "TRM 102530: 32 or 64 KiB; 32 taken"),
        l2=_cache(256 * _KIB, "TRM 102530: 128 to 512 KiB, private; 256 taken"),
        issue_width=5,
        vector_pipes=2,
        mca_cpu="neoverse-n2",
        source="TRM 102530; SOG: dispatches five MOPs a cycle; vector pipes V0 and V1, as cortex-a715",
    ),
    _core(
        name="cortex-a725",
        features=_ARMV9_0,
        l1d=_cache(64 * _KIB, "TRM 107652: 64 KiB taken"),
        l2=_cache(512 * _KIB, "TRM 107652: 256 KiB to 1 MiB, private; 512 taken"),
        issue_width=5,
        vector_pipes=2,
        mca_cpu="neoverse-n2",
        source="TRM 107652: the successor of cortex-a720, whose widths are taken",
    ),
    _core(
        name="c1-nano",
        features=_ARMV9_0,
        l1d=_cache(32 * _KIB, "as cortex-a520, whose successor it is"),
        l2=_cache(128 * _KIB, "as cortex-a520"),
        issue_width=3,
        vector_pipes=2,
        mca_cpu="cortex-a510",
        source="The successor of cortex-a520, whose figures are taken; features as LLVM has them, without SME",
        in_order=True,
    ),
    _core(
        name="c1-pro",
        features=_ARMV9_0,
        l1d=_cache(64 * _KIB, "as cortex-a725, whose successor it is"),
        l2=_cache(512 * _KIB, "as cortex-a725"),
        issue_width=5,
        vector_pipes=2,
        mca_cpu="neoverse-n2",
        source="The successor of cortex-a725, whose figures are taken; features as LLVM has them, without SME",
    ),
    _core(
        name="cortex-x1",
        features=_ARMV8_2_RCPC,
        l1d=_cache(64 * _KIB, "TRM 101433: 64 KiB"),
        l2=_cache(512 * _KIB, "TRM 101433: 512 KiB or 1 MiB, private; 512 taken"),
        issue_width=8,
        vector_pipes=4,
        mca_cpu="neoverse-v1",
        source="TRM 101433; SOG: dispatches eight MOPs a cycle. Sibling of V1: V0 to V3",
        spare_registers=_LOADS_FIRST,
    ),
    _core(
        name="cortex-x2",
        features=_ARMV9_0,
        l1d=_cache(64 * _KIB, "TRM 101803: 64 KiB"),
        l2=_cache(512 * _KIB, "TRM 101803: 512 KiB or 1 MiB, private; 512 taken"),
        issue_width=8,
        vector_pipes=4,
        mca_cpu="neoverse-v2",
        source="TRM 101803; SOG: dispatches eight MOPs a cycle. Vector pipes V0 to V3, as V2",
    ),
    _core(
        name="cortex-x3",
        features=_ARMV9_0,
        l1d=_cache(64 * _KIB, "TRM 101593: 64 KiB"),
        l2=_cache(512 * _KIB, "TRM 101593: 512 KiB or 1 MiB, private; 512 taken"),
        issue_width=8,
        vector_pipes=4,
        mca_cpu="neoverse-v2",
        source="TRM 101593; SOG: dispatches eight MOPs a cycle. Sibling of V2: V0 to V3",
    ),
    _core(
        name="cortex-x4",
        features=_ARMV9_0,
        l1d=_cache(64 * _KIB, "TRM 102484: 64 KiB"),
        l2=_cache(_MIB, "TRM 102484: 512 KiB to 2 MiB, private; 1 MiB taken"),
        issue_width=10,
        vector_pipes=4,
        mca_cpu="neoverse-v2",
        source="TRM 102484; SOG: dispatches ten MOPs a cycle; vector pipes V0 to V3",
    ),
    _core(
        name="cortex-x925",
        features=_ARMV9_0,
        l1d=_cache(64 * _KIB, "TRM 102807: 64 KiB"),
        l2=_cache(2 * _MIB, "TRM 102807: 2 or 3 MiB, private; 2 taken"),
        issue_width=10,
        vector_pipes=4,
        mca_cpu="neoverse-v2",
        source="TRM 102807; SOG: dispatches ten MOPs a cycle. Of its vector pipes V0 to V5 four are counted, as "
        "llvm-mca's model has",
    ),
    _core(
        name="c1-premium",
        features=_ARMV9_0,
        l1d=_cache(64 * _KIB, "as cortex-x925"),
        l2=_cache(_MIB, "as cortex-x4"),
        issue_width=10,
        vector_pipes=4,
        mca_cpu="neoverse-v2",
        source="A smaller c1-ultra: the lower figures of cortex-x4 and x925 are taken; features as LLVM has them, "
        "without SME",
    ),
    _core(
        name="c1-ultra",
        features=_ARMV9_0,
        l1d=_cache(128 * _KIB, "TRM of C1-Ultra: 128 KiB"),
        l2=_cache(2 * _MIB, "TRM of C1-Ultra: 2 or 3 MiB, private; 2 taken"),
        issue_width=10,
        vector_pipes=4,
        mca_cpu="neoverse-v2",
        source="The successor of cortex-x925, whose figures are taken; features as LLVM has them, without SME",
    ),
    _core(
        name="neoverse-n1",
        features=_ARMV8_2_RCPC,
        l1d=_cache(64 * _KIB, "TRM 100616: 64 KiB"),
        l2=_cache(_MIB, "TRM 100616: 256 KiB to 1 MiB, private; 1 MiB as in Graviton2"),
        issue_width=4,
        vector_pipes=2,
        mca_cpu="neoverse-n1",
        source="TRM 100616; SOG: dispatches four MOPs a cycle; vector pipes V0 and V1",
        loop_registers=_BRINGS_FORWARD,
    ),
    _core(
        name="neoverse-n2",
        features=_ARMV9_0,
        l1d=_cache(64 * _KIB, "TRM 102099: 64 KiB as in Yitian 710"),
        l2=_cache(_MIB, "TRM 102099: 512 KiB or 1 MiB, private; 1 MiB as in Yitian 710"),
        issue_width=5,
        vector_pipes=2,
        mca_cpu="neoverse-n2",
        source="TRM 102099; SOG: dispatches five MOPs a cycle; vector pipes V0 and V1",
    ),
    _core(
        name="neoverse-v1",
        features=_ARMV8_4_SVE,
        vector_bits=256,
        l1d=_cache(64 * _KIB, "TRM 101427: 64 KiB"),
        l2=_cache(_MIB, "TRM 101427: 512 KiB or 1 MiB, private; 1 MiB as in Graviton3"),
        issue_width=8,
        vector_pipes=4,
        mca_cpu="neoverse-v1",
        source="TRM 101427; SOG: dispatches eight MOPs a cycle; SVE of 256 bits, NEON on V0 to V3",
    ),
    _core(
        name="neoverse-v2",
        features=_ARMV9_0,
        l1d=_cache(64 * _KIB, "TRM 102375: 64 KiB"),
        l2=_cache(2 * _MIB, "TRM 102375: 1 or 2 MiB, private; 2 MiB as in Graviton4"),
        issue_width=8,
        vector_pipes=4,
        mca_cpu="neoverse-v2",
        source="TRM 102375; SOG: dispatches eight MOPs a cycle; vector pipes V0 to V3",
    ),
    _core(
        name="neoverse-n3",
        features=_ARMV9_0,
        l1d=_cache(64 * _KIB, "TRM 107997: 32 or 64 KiB; 64 taken"),
        l2=_cache(_MIB, "TRM 107997: 128 KiB to 2 MiB, private; 1 MiB taken"),
        issue_width=5,
        vector_pipes=2,
        mca_cpu="neoverse-n2",
        source="TRM 107997; SOG: vector pipes V0 and V1; widths of neoverse-n2 are taken",
    ),
    _core(
        name="neoverse-v3",
        features=_ARMV9_0,
        l1d=_cache(64 * _KIB, "TRM 107734: 64 KiB"),
        l2=_cache(2 * _MIB, "TRM 107734: 1 to 3 MiB, private; 2 taken"),
        issue_width=10,
        vector_pipes=4,
        mca_cpu="neoverse-v2",
        source="TRM 107734; SOG: vector pipes V0 to V3. Sibling of cortex-x4, whose width is taken",
    ),
    *(
        _core(
            name=f"apple-m{generation}",
            features=_APPLE_M1 if generation == 1 else _APPLE_M2,
            l1d=_cache(128 * _KIB, "Apple's sysctl hw.perflevel0.l1dcachesize"),
            l2=_cache(
                l2 * _MIB, "a quarter of what sysctl hw.perflevel0.l2cachesize says of a cluster of four"
            ),
            issue_width=8,
            vector_pipes=4,
            mca_cpu="neoverse-v2",
            source="Measurements of Firestorm, the big core of M1, by others (dougallj.github.io/applecpu): eight "
            "instructions a cycle, four vector pipes. Features as LLVM has them, without SME",
            outer_products=_M4_UNIT,
        )
        for generation, l2 in ((1, 3), (2, 4), (3, 4), (4, 4))
    ),
)

_TIGHTLY_COUPLED = "no data cache is modelled: code and data are in memory without wait states"


def _m_core(
    name: str, features: tuple[str, ...], memory: int, issue_width: int, mca_cpu: str, source: str
) -> Core:
    isa = microcontroller_isa(features)
    near = Cache(memory * _KIB, 32, _TIGHTLY_COUPLED)
    return Core(
        name,
        name,
        features,
        8 * isa.vector_bytes,
        near,
        near,
        issue_width,
        1,
        mca_cpu,
        source,
        isa,
        in_order=True,
        spare_registers=0,
    )


# Features of LLVM's CPUs of the same names, held equal by a test. The sizes of memory are those of boards that are
# common, or of the emulated ones.
_FPV5_SP = ("fp-armv8d16sp", "hwdiv", "vfp2sp")
_ARMV8_1_M = tuple(sorted({"dsp", *_FPV5_SP, "fp64", "fullfp16", "lob", "mve", "mve.fp"}))
_M_CORES = (
    _m_core("cortex-m0plus", (), 128, 1, "", "TRM 100193: Armv6-M, single issue; MUL in one cycle assumed"),
    _m_core("cortex-m3", ("hwdiv",), 128, 1, "", "TRM 100165: Armv7-M, single issue"),
    _m_core(
        "cortex-m4", ("dsp", "hwdiv", "vfp2sp"), 128, 1, "", "TRM 100166: Armv7E-M with FPv4-SP, single issue"
    ),
    _m_core(
        "cortex-m7",
        tuple(sorted({"dsp", *_FPV5_SP, "fp64"})),
        128,
        2,
        "",
        "TRM DDI 0489: Armv7E-M with FPv5 of double precision, dual issue",
    ),
    _m_core(
        "cortex-m33",
        tuple(sorted({"dsp", *_FPV5_SP})),
        128,
        1,
        "",
        "TRM 100230: Armv8-M Mainline with DSP and FPv5-SP, single issue",
    ),
    _m_core(
        "cortex-m55", _ARMV8_1_M, 512, 1, "cortex-m55", "TRM 101051: Armv8.1-M with MVE; two beats a cycle"
    ),
    _m_core("cortex-m85", _ARMV8_1_M, 512, 2, "cortex-m55", "TRM 101924: Armv8.1-M with MVE, dual issue"),
)

CORES: dict[str, Core] = {core.name: core for core in _CORES}
"""The cores that run Linux, by name."""

MICROCONTROLLERS: dict[str, Core] = {core.name: core for core in _M_CORES}
"""The Cortex-M, by name."""
