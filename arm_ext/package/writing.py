# SPDX-License-Identifier: Apache-2.0
"""Writing of a package folder: atomically, and without losing other files of the user."""

import errno
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from arm_ext.common.errors import UsageError
from arm_ext.common.faults import environment, is_environment
from arm_ext.common.outputs import check_replaceable, checked_folder, install, refuse_inputs, unwritable
from arm_ext.common.scratch import NEW, scratch
from arm_ext.package import MANIFEST, file_sha256, is_package_name, read_files

_OPTION = "-o"
_NAMED = 3  # maximum number of files in a message
_TRIAL = "trial"


@contextmanager
def writing(output: Path, inputs: Iterable[Path] = (), *, force: bool = False) -> Iterator[Path]:
    """Yield a folder to fill; it becomes `output` when the block ends normally, and is removed otherwise.

    An earlier package at `output` is replaced if nothing else is there: other files are the user's.

    Args:
        output: The package's folder.
        inputs: Files that are read meanwhile.
        force: Whether to write the package where there are other files, too, which stay, and over files of an earlier
            package that were changed.

    Raises:
        UsageError: An existing file or folder must not be replaced, or is being read; or `output` cannot be written.
        EnvError: The disk is full, or cannot be written for another reason.
    """
    place = checked_folder(output, _OPTION)
    if place.exists():
        check_replaceable(place, output, _OPTION)
        refuse_inputs(output, _OPTION, inputs, _leaves(place))
        _check_contents(output, place, force)
    with ExitStack() as stack:
        try:
            folder = stack.enter_context(scratch(place.parent))
            fresh = folder / NEW
            fresh.mkdir()
            # A trial run, so that files that cannot be kept are reported before the compile.
            _keep_others(place, folder / _TRIAL)
        except OSError as err:
            raise unwritable(err, output, _OPTION) from err
        try:
            yield fresh
            _keep_others(place, fresh)
            install(fresh, place)
        except OSError as err:
            if err.errno in (errno.EEXIST, errno.ENOTEMPTY):
                raise UsageError(
                    f"{output}: another command has written there meanwhile; name another folder with {_OPTION}"
                ) from err
            if not is_environment(err):
                raise
            raise environment(err, place.parent, Path(tempfile.gettempdir())) from err


@dataclass(frozen=True)
class _Found:
    """Contents of a folder, as relative paths.

    Attributes:
        is_package: Whether there is a manifest that lists what was written.
        changed: Files of the package whose bytes are not those that were written.
        others: Files and empty folders that are no part of it.
    """

    is_package: bool
    changed: tuple[Path, ...]
    others: tuple[Path, ...]


def _found_in(folder: Path) -> _Found:
    there = [path.relative_to(folder) for path in _leaves(folder)]
    try:
        files = read_files(folder)
    except UsageError:
        return _Found(False, (), tuple(there))
    hashes = {Path(file.path): file.sha256 for file in files}
    changed = [path for path in there if path in hashes and not _is(folder / path, hashes[path])]
    others = [path for path in there if path not in hashes and path != Path(MANIFEST)]
    return _Found(True, tuple(changed), tuple(others))


def _is(path: Path, sha256: str) -> bool:
    return path.is_file() and not path.is_symlink() and file_sha256(path) == sha256


def _leaves(folder: Path) -> Iterator[Path]:
    """Yield all files, links and empty folders below a folder; links are not followed."""
    for root, folders, files in os.walk(folder):
        here = Path(root)
        yield from (here / name for name in files)
        yield from (here / name for name in folders if (here / name).is_symlink())
        if not folders and not files and here != folder:
            yield here


def _check_contents(output: Path, place: Path, force: bool) -> None:
    found = _found_in(place)
    if force:
        if taken := [path for path in found.others if is_package_name(path)]:
            raise UsageError(
                f"{output}: {_names(taken)} is not known to be arm-ext's, and has the name of a package's file; "
                f"move it away, or name another folder with {_OPTION}"
            )
    elif not found.is_package and found.others:
        raise UsageError(
            f"{output}: exists and is not a package of this version, but holds {_names(found.others)}; name another "
            f"folder with {_OPTION}, or remove it if it is of no use; --force writes beside what is there"
        )
    elif found.others:
        raise UsageError(
            f"{output}: holds {_names(found.others)}, which arm-ext did not write; name another folder with "
            f"{_OPTION}, or replace only the package by --force"
        )
    elif found.changed:
        raise UsageError(
            f"{output}: {_names(found.changed)} was changed since arm-ext wrote it; name another folder with "
            f"{_OPTION}, or replace it by --force"
        )


def _names(paths: Iterable[Path]) -> str:
    names = sorted(map(str, paths))
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def _keep_others(place: Path, fresh: Path) -> None:
    """Link files that do not belong to the previous package into the new one, so that they exist at all times."""
    for path in _found_in(place).others if place.exists() else ():
        source, target = place / path, fresh / path
        if os.path.lexists(target):
            raise UsageError(
                f"{source}: has appeared meanwhile, and has the name of a package's file; move it away"
            )
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir() and not source.is_symlink():
            target.mkdir()
        else:
            os.link(source, target, follow_symlinks=False)
        for folder in list(path.parents)[:-1]:
            shutil.copystat(place / folder, fresh / folder)
