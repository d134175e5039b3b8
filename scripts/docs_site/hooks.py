# SPDX-License-Identifier: Apache-2.0
"""MkDocs hooks: pages of docs/reference get what is read from the code, in the place of the line `MARK`.

The command line comes from click, the fields of manifest and report from their JSON schemas, targets and limits from
the tables that the compiler itself reads. So the pages are up to date whenever the site is built.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import click

import arm_ext
from arm_ext import cli
from arm_ext.api.schema import DOCUMENTS, Document
from arm_ext.ethosu.ops.common.constraint import Constraint
from arm_ext.ethosu.ops.constraints import CONSTRAINTS, kinds_of
from arm_ext.ethosu.ops.registry import BY_KIND
from arm_ext.target.npu import ACCELERATORS, DEFAULT_SYSTEM
from arm_ext.target.profiles import PROFILES, Profile

MARK = "(This part is made from the code when the site is built: see it by `scripts/docs.sh`.)"
# One of a docstring's attributes, with the lines that continue it.
_ATTRIBUTE = re.compile(r"^\s*(\w+): ((?:.|\n(?!\s*\w+: ))*)", re.MULTILINE)
# Of a profile's features, those that decide which arithmetic instructions a model can use.
SHOWN = ("fullfp16", "dotprod", "i8mm", "bf16", "sve", "sve2", "sme")


def command_line() -> str:
    """Return the help of each verb, as the command prints it."""
    return "\n".join(_help(f"arm-ext {name}", command) for name, command in commands().items())


def commands() -> Mapping[str, click.Command]:
    """Return every command by its words after `arm-ext`."""
    return dict(_leaves(cli.group, ""))


def _leaves(group: click.Group, before: str) -> Iterator[tuple[str, click.Command]]:
    for name in group.list_commands(click.Context(group)):
        with click.Context(group) as context:  # it ends what the command line does before it loads a command
            command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from _leaves(command, f"{before}{name} ")
        else:
            yield f"{before}{name}", command


def _help(name: str, command: click.Command) -> str:
    context = click.Context(command, info_name=name, max_content_width=100, terminal_width=100)
    return f"### {name}\n\n```text\n{command.get_help(context)}\n```\n"


def files() -> str:
    """Return the fields of the manifest and the report, record by record."""
    files: dict[str, str] = {"library": "manifest.json of a library of several models"}
    return "\n".join(_schema(name, files.get(name, f"{name}.json")) for name in DOCUMENTS)


def _schema(name: Document, file: str) -> str:
    schema: dict[str, Any] = arm_ext.schema(name)
    parts = [f"## {file}\n", _record(schema)]
    parts += [
        f"### {name}: {key}\n\n{_record(each)}"
        for key, each in schema.get("$defs", {}).items()
        if "properties" in each
    ]
    return "\n".join(parts)


def _record(schema: Mapping[str, Any]) -> str:
    text = schema.get("description", "")
    summary, _, attributes = text.partition("Attributes:")
    told = dict(_ATTRIBUTE.findall(attributes))
    rows = [
        f"| `{name}` | {_cell(_type(field))} | {_cell(field.get('description', told.get(name, '')))} |"
        for name, field in schema.get("properties", {}).items()
    ]
    return "\n".join([summary.strip(), "", "| Field | Type | Meaning |", "|---|---|---|", *rows, ""])


def _type(field: Mapping[str, Any]) -> str:
    if "$ref" in field:
        return str(field["$ref"]).rpartition("/")[2]
    if "const" in field:
        return json.dumps(field["const"])
    if "enum" in field:
        return " or ".join(json.dumps(value) for value in field["enum"])
    for key in ("anyOf", "oneOf", "allOf"):
        if key in field:
            return " or ".join(_type(each) for each in field[key])
    kind = str(field.get("type", "any"))
    if kind == "array":
        return f"list of {_type(field.get('items', {}))}"
    if kind == "object" and isinstance(field.get("additionalProperties"), dict):
        return f"map to {_type(field['additionalProperties'])}"
    return kind


def targets() -> str:
    """Return tables of the profiles, and of the NPUs with Vela's default configuration for each."""
    rows = ["| `--target` | Core | Features | Emulated by `qemu-aarch64 -cpu` |", "|---|---|---|---|"]
    rows += [_profile(profile) for profile in PROFILES.values()]
    rows += ["", "## NPUs", ""]
    rows += ["| `--npu` | `--system-config` by default | `--memory-mode` by default |", "|---|---|---|"]
    for family, (system, mode) in DEFAULT_SYSTEM.items():
        names = ", ".join(f"`{name}`" for name, npu in ACCELERATORS.items() if npu.family == family)
        rows.append(f"| {names} | {system} | {mode} |")
    return "\n".join(rows) + "\n"


def _profile(profile: Profile) -> str:
    features = " ".join(name for name in SHOWN if name in profile.features)
    return f"| `{profile.name}` | {profile.core.name} | {features or 'NEON alone'} | `{profile.qemu_cpu}` |"


def limits() -> str:
    """Return the kinds of operators that the NPU can take, and a table of the limits on each."""
    kinds = ", ".join(f"`{kind}`" for kind in BY_KIND)
    rows = [f"Kinds with a TOSA form: {kinds}.", ""]
    rows += [
        "| Operators | An operator stays on the CPU if | Allowed | On | Source |",
        "|---|---|---|---|---|",
    ]
    rows += [_limit(constraint) for constraint in CONSTRAINTS]
    return "\n".join(rows) + "\n"


def _limit(constraint: Constraint[Any]) -> str:
    kinds = ", ".join(f"`{kind}`" for kind in kinds_of(constraint)) or "all"
    families = ", ".join(family.upper() for family in constraint.families)
    return f"| {kinds} | {constraint.reason} | {constraint.limit} | {families} | {constraint.source} |"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


PAGES: Mapping[str, Callable[[], str]] = {
    "reference/command-line.md": command_line,
    "reference/files.md": files,
    "reference/targets.md": targets,
    "reference/ethos-u-limits.md": limits,
}
"""Path of a page → function that returns what stands in the place of its mark."""


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Return a page's text with its mark replaced; MkDocs calls this with each page."""
    make = PAGES.get(page.file.src_uri)
    return markdown if make is None else markdown.replace(MARK, make())
