# SPDX-License-Identifier: Apache-2.0
"""The type of arguments and options that name files and folders."""

from pathlib import Path
from typing import Any

import click

from arm_ext.common.text import NAME, clipped, visible


class _PathType(click.Path):
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path.

        Refuse an empty one, as from an unset shell variable, which would mean the working folder.
        """
        if value == "":
            self.fail("is empty; name a file or folder", param, ctx)
        if isinstance(value, str) and (name := visible(value, kept="")) != value:
            self.fail(f"'{clipped(name, NAME)}' has control characters in its name; rename it", param, ctx)
        return super().convert(value, param, ctx)


PATH = _PathType(path_type=Path)
"""A file or folder, which need not exist."""
