# SPDX-License-Identifier: Apache-2.0
"""A user's .npz files: the arrays, or what is wrong with the file."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, is_zipfile

import numpy as np
import numpy.typing as npt

from arm_ext.errors import UsageError


def read_npz(path: Path, what: str) -> Mapping[str, npt.NDArray[Any]]:
    """Return the arrays of a file by name.

    Args:
        path: The file.
        what: What is expected in it, such as "an array an input", for the message.

    Raises:
        UsageError: It is missing, not of the format, or holds what is no array of numbers.
    """
    wanted = f"expected an .npz, as numpy.savez writes it, with {what}"
    if not path.is_file():
        kind = "a folder" if path.is_dir() else "no such file"
        raise UsageError(f"{path}: {kind}; {wanted}")
    if not is_zipfile(path):
        raise UsageError(f"{path}: not an .npz file; {wanted}")
    try:
        with np.load(path, allow_pickle=False) as data:
            arrays = dict(data)
    except (OSError, ValueError, TypeError, EOFError, BadZipFile) as err:
        damage = "it holds Python objects" if "allow_pickle" in str(err) else str(err)
        raise UsageError(f"{path}: its arrays cannot be read ({damage}); {wanted}") from err
    if foreign := [name for name, value in arrays.items() if not isinstance(value, np.ndarray)]:
        raise UsageError(f"{path}: {foreign[0]} is no array; {wanted}")
    return arrays
