# SPDX-License-Identifier: Apache-2.0
"""`arm-ext compile MODEL --save-node NAME`."""

import json
import re
from collections.abc import Mapping
from pathlib import Path

import click

from arm_ext.cli.console import command
from arm_ext.frontends.onnx.extract import SavedNode, save_node

SCHEMA_VERSION = 1


def save(
    model: Path, node: str, output: Path | None, shapes: Mapping[str, tuple[int, ...]], as_json: bool
) -> None:
    """Write a model around a node, and tell what is in it."""
    path = output or Path(f"{model.stem}-{re.sub(r'[^A-Za-z0-9.-]+', '_', node).strip('_')}.onnx")
    saved = save_node(model, node, path, dict(shapes))
    if as_json:
        click.echo(json.dumps({"schema_version": SCHEMA_VERSION, **saved.document()}, indent=2))
        return
    click.echo("\n".join(_lines(saved)))


def _lines(saved: SavedNode) -> list[str]:
    weights = f"{saved.weight_bytes:,} bytes, the model's own: look at them before you pass the file on"
    if not saved.weight_bytes:
        weights = "none"
    return [
        f"wrote    {saved.path}",
        f"nodes    {', '.join(f'{name} ({operator})' for name, operator in saved.nodes.items())}",
        f"inputs   {', '.join(saved.inputs) or 'none'}",
        f"weights  {weights}",
        "",
        f"Compile it alone:\n  {command('compile')} {saved.path}",
    ]
