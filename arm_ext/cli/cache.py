# SPDX-License-Identifier: Apache-2.0
"""`arm-ext cache`: the cache of compiled kernels and self-tests."""

import dataclasses
import json

import click

from arm_ext.api.cache import CacheContents, cache_contents, clear_cache
from arm_ext.cli.console import columns
from arm_ext.cli.options import json_option

SCHEMA_VERSION = 1


@click.group()
def cache() -> None:
    """Look after the cache of compiled kernels and self-tests."""


@cache.command()
@json_option()
def show(as_json: bool) -> None:
    """Show where the cache is, and how much it holds."""
    _tell(cache_contents(), as_json)


@cache.command()
@json_option()
def clear(as_json: bool) -> None:
    """Remove all compiled kernels and self-tests, and print what was removed; compiling makes them again."""
    _tell(clear_cache(), as_json)


def _tell(contents: CacheContents, as_json: bool) -> None:
    if as_json:
        document = dataclasses.asdict(contents) | {"folder": str(contents.folder)}
        click.echo(json.dumps({"schema_version": SCHEMA_VERSION, **document}, indent=2))
        return
    rows = {
        "folder": str(contents.folder),
        "kernels": f"{contents.kernels:,}",
        "self-tests": f"{contents.selftests:,}",
        "size": f"{contents.size:,} bytes of {contents.limit:,}",
    }
    click.echo(columns(list(rows.items())))
