# SPDX-License-Identifier: Apache-2.0
"""The packages that run without a warning: compiled on this machine, or warned about before."""

import os

from arm_ext.common.cache import cache_folder
from arm_ext.common.errors import EnvError

_RECORD = "packages-known"
# Maximum bytes of the record of hashes, one per line. When it gets longer, its older half is dropped; a dropped
# hash only causes a needless warning.
_LONGEST = 1 << 20


def is_known(so_sha256: str) -> bool:
    """Whether a model.so is in the record."""
    try:
        return so_sha256 in (cache_folder() / _RECORD).read_text(encoding="utf-8").splitlines()
    except (OSError, EnvError):
        return False


def remember(so_sha256: str) -> None:
    """Record that a model.so needs no warning: it was compiled here, or a warning was given."""
    try:
        record = cache_folder() / _RECORD
        with record.open("a", encoding="utf-8") as file:
            file.write(f"{so_sha256}\n")
        if record.stat().st_size > _LONGEST:
            aside = record.with_name(f"{record.name}.{os.getpid()}")
            aside.write_text(
                record.read_text(encoding="utf-8")[_LONGEST // 2 :].partition("\n")[2], encoding="utf-8"
            )
            aside.replace(record)
    except (OSError, EnvError):
        return  # a cache that cannot be written only causes another warning
