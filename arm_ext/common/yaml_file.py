# SPDX-License-Identifier: Apache-2.0
"""YAML files written by users: a mapping without duplicate keys."""

from collections.abc import Hashable
from pathlib import Path
from typing import Any

import yaml

from arm_ext.common.errors import UsageError


class _Loader(yaml.SafeLoader):  # type: ignore[misc]  # yaml has no types
    """YAML's safe loader, which also refuses duplicate keys; the original silently uses the last one."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        """Return the mapping, whose keys must be different scalars."""
        seen: set[tuple[str, str]] = set()
        for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
            if (key.tag, key.value) in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key.value!r} appears twice", key.start_mark
                )
            seen.add((key.tag, key.value))
        mapping: dict[Hashable, Any] = super().construct_mapping(node, deep)
        return mapping


def read_mapping(path: Path, keys: str) -> dict[Hashable, Any]:
    """Return the mapping in a YAML file.

    Args:
        path: The file.
        keys: Word for its keys in error messages.

    Raises:
        UsageError: The file is missing, not YAML, or no mapping with a key.
    """
    try:
        if not path.is_file():
            raise UsageError(f"{path}: no such file; expected YAML with {keys}")
        data = yaml.load(path.read_text(encoding="utf-8-sig"), _Loader)
    except OSError as err:
        raise UsageError(f"{path}: cannot be read: {err.strerror}") from err
    # yaml raises ValueError for text that is not UTF-8, a number of too many digits, and an impossible date.
    except (yaml.YAMLError, ValueError, RecursionError) as err:
        raise UsageError(f"{path}: not YAML: {err}") from err
    if not isinstance(data, dict) or not data:
        raise UsageError(f"{path}: expected a mapping with {keys}")
    return data
