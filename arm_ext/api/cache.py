# SPDX-License-Identifier: Apache-2.0
"""The cache of kernels' machine code, which may be deleted: compiling recreates it."""

from dataclasses import dataclass
from pathlib import Path

from arm_ext.pipeline.kernel_cache import KERNELS


@dataclass(frozen=True)
class CacheContents:
    """The kernels in the cache.

    Attributes:
        folder: Where they lie.
        kernels: How many.
        size: Bytes of all.
        limit: Bytes above which those go that were used longest ago.
    """

    folder: Path
    kernels: int
    size: int
    limit: int


def cache_contents() -> CacheContents:
    """Return the folder of the cached kernels, their number and size, and the size limit.

    Raises:
        EnvError: There is no cache folder, and it cannot be made.
    """
    return CacheContents(KERNELS.folder(), *KERNELS.size(), KERNELS.limit)


def clear_cache() -> CacheContents:
    """Remove the kernels from the cache; returns what there was.

    Raises:
        EnvError: One cannot be removed.
    """
    before = cache_contents()
    KERNELS.clear()
    return before
