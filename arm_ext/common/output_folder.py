# SPDX-License-Identifier: Apache-2.0
"""An output folder that may also contain other files of the user.

A hidden file lists what was written there with its hashes. A file of a name that is wanted is replaced if it is listed
with the hash that it has, and refused otherwise: it is the user's, or the user has changed it.
"""

import hashlib
import json
import shutil
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from arm_ext.common.errors import UsageError
from arm_ext.common.outputs import checked_folder, refuse_inputs, replace_file, unwritable, write_through
from arm_ext.common.scratch import scratch

LIST = ".arm-ext-files.json"


class _Written(BaseModel):
    """The record of an output folder: path within the folder → valid hashes of the file."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    schema_version: Literal[1] = 1
    files: dict[str, list[str]] = {}


class OutputFolder:
    """A folder whose files are written atomically."""

    def __init__(
        self, path: str | Path, option: str, inputs: Iterable[Path] = (), *, force: bool = False
    ) -> None:
        """Check the folder without changing it.

        Args:
            path: The folder, which need not be there.
            option: The option that names it.
            inputs: Files that are read meanwhile.
            force: Whether files that were changed since they were written are replaced, too.

        Raises:
            UsageError: No folder can be there, or a file that is read would be written over.
        """
        self._path, self._option, self._force = Path(path), option, force
        self._place = checked_folder(self._path, option)
        self._written = self._read()
        listed = [self._place / name for name in self._written]
        refuse_inputs(self._path, option, inputs, listed, within=False)

    def check_like(self, pattern: str) -> None:
        """Check that files whose names match a pattern may be written.

        Raises:
            UsageError: A file of such a name is the user's, or was changed.
        """
        for path in sorted(self._place.glob(pattern)):
            self._hash_of(str(path.relative_to(self._place)))

    def write(self, name: str, content: bytes) -> None:
        """Write a file, whose name may include a folder; see `write_all`."""
        self.write_all({name: content})

    def write_all(self, contents: Mapping[str, bytes]) -> None:
        """Write all files, or none if the disk has too little space.

        Raises:
            UsageError: One of these names is the user's, or was changed; the folder cannot be written.
            EnvError: The disk is full.
        """
        hashes = {}
        for name, content in contents.items():
            before = self._hash_of(name)
            hashes[name] = [hashlib.sha256(content).hexdigest()] + ([] if before is None else [before])
        is_new = not self._place.exists()
        try:
            self._place.mkdir(exist_ok=True)
            self._install(contents, hashes)
        except OSError as err:
            if is_new:
                with suppress(OSError):  # there is something in it
                    self._place.rmdir()
            raise unwritable(err, self._path, self._option) from err

    def _install(self, contents: Mapping[str, bytes], hashes: Mapping[str, list[str]]) -> None:
        with scratch(self._place) as folder:
            for number, content in enumerate(contents.values()):
                write_through(folder / str(number), content)
            replace_file(self._place / LIST, self._list_with(hashes))
            for number, name in enumerate(contents):
                target = self._place / name
                target.parent.mkdir(parents=True, exist_ok=True)
                if target.exists():
                    shutil.copymode(target, folder / str(number))
                (folder / str(number)).replace(target)

    def _list_with(self, hashes: Mapping[str, list[str]]) -> bytes:
        self._written = {**self._written, **hashes}
        return (_Written(files=self._written).model_dump_json(indent=2) + "\n").encode()

    def _hash_of(self, name: str) -> str | None:
        """Return the hash of an existing file; None if there is none."""
        path = self._place / name
        if not path.exists() and not path.is_symlink():
            return None
        if name not in self._written or path.is_symlink() or not path.is_file():
            raise UsageError(
                f"{self._path / name}: arm-ext did not write it; move it away, or name another folder with "
                f"{self._option}"
            )
        found = hashlib.sha256(path.read_bytes()).hexdigest()
        if found not in self._written[name] and not self._force:
            raise UsageError(
                f"{self._path / name}: was changed since arm-ext wrote it; move it away, name another folder with "
                f"{self._option}, or replace it by --force"
            )
        return found

    def _read(self) -> Mapping[str, list[str]]:
        path = self._place / LIST
        if not path.exists() and not path.is_symlink():
            return {}
        try:
            return _Written.model_validate_json(path.read_bytes()).files
        except (OSError, ValidationError, json.JSONDecodeError) as err:
            raise UsageError(
                f"{self._path / LIST}: is not the list of files that arm-ext keeps there; move it away, or name "
                f"another folder with {self._option}"
            ) from err
