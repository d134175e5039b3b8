# SPDX-License-Identifier: Apache-2.0
"""The Arm cores that schedules know: features, caches, widths; each number with its source."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Cache:
    """One cache level as seen by one core.

    Attributes:
        size: Bytes.
        line: Bytes of a cache line.
        source: The document the figures come from; for a configurable size also the choice taken.
    """

    size: int
    line: int
    source: str


@dataclass(frozen=True)
class Core:
    """What a schedule needs to know of a core.

    Attributes:
        name: Arm's name in lower case, such as "cortex-a76"; "generic-dotprod" for the `arm` profile.
        llvm_cpu: LLVM's -mcpu.
        features: LLVM feature names the core has beyond Armv8.0-A with NEON, sorted ("dotprod", "fullfp16", "i8mm").
        vector_bits: Width of an SVE vector; 128 where there is NEON alone.
        l1d: L1 data cache.
        l2: L2 cache (private or the core's share).
        issue_width: Instructions a cycle that the front end can dispatch; the clamp on estimated IPC.
        mca_cpu: llvm-mca -mcpu whose scheduling model stands in for this core.
        source: The manual that names the features and widths.
    """

    name: str
    llvm_cpu: str
    features: tuple[str, ...]
    vector_bits: int
    l1d: Cache
    l2: Cache
    issue_width: int
    mca_cpu: str
    source: str
