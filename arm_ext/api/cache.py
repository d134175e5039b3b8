# SPDX-License-Identifier: Apache-2.0
"""The cache of kernels' machine code and of self-tests. It may be deleted; compiling recreates it."""

from dataclasses import dataclass
from pathlib import Path

from arm_ext.common.cache import cache_folder
from arm_ext.pipeline.caches import KERNEL_ENTRIES, SELFTEST_ENTRIES


@dataclass(frozen=True)
class CacheContents:
    """The cache's folder, and the number and size of its entries.

    Attributes:
        folder: Folder of the cache.
        kernels: How many entries of kernels: choices, stubs, and machine code.
        selftests: How many outputs of self-tests.
        size: Bytes of all.
        limit: Bytes above which the least recently used entries are removed.
    """

    folder: Path
    kernels: int
    selftests: int
    size: int
    limit: int


def cache_contents() -> CacheContents:
    """Return the folder of the cache, the number of its entries and their size, and the size limit.

    Raises:
        EnvError: There is no cache folder, and it cannot be made.
    """
    (kernels, code), (selftests, outputs) = KERNEL_ENTRIES.size(), SELFTEST_ENTRIES.size()
    limit = KERNEL_ENTRIES.limit + SELFTEST_ENTRIES.limit
    return CacheContents(cache_folder(), kernels, selftests, code + outputs, limit)


def clear_cache() -> CacheContents:
    """Remove all entries that compiling has put into the cache; return their number and size.

    Raises:
        EnvError: An entry cannot be removed.
    """
    before = cache_contents()
    KERNEL_ENTRIES.clear()
    SELFTEST_ENTRIES.clear()
    return before
