# SPDX-License-Identifier: Apache-2.0
"""`arm-ext targets`."""

import json
from collections.abc import Sequence

import click
from rich.console import Console
from rich.table import Table

from arm_ext.cli.options import json_option
from arm_ext.target.family import family_levels, family_profile
from arm_ext.target.profiles import PROFILES, Profile, resolve

SCHEMA_VERSION = 1

# The features that determine a kernel's inner loop; all features would not fit a row.
_SHOWN = ("dotprod", "fullfp16", "i8mm", "bf16", "sve", "sve2", "sme")
_WIDTH = 160  # columns; in a narrower window, complete rows wrap instead of cells
_FOOTNOTE = """
--json lists every feature, also of host, and where each figure comes from.
LLVM emits SVE code for a target that has it; --mattr=-sve,-sve2 keeps to NEON.
A package for armv8-a+ has code for cores without dotprod, with it, and with i8mm, and chooses when it runs."""


@click.command()
@json_option()
def targets(as_json: bool) -> None:
    """List the profiles that --target takes."""
    if as_json:
        click.echo(json.dumps(_document([*PROFILES.values(), resolve("host")]), indent=2))
    else:
        Console(width=_WIDTH).print(_table(list(PROFILES.values())))
        click.echo(_FOOTNOTE)


def _table(profiles: Sequence[Profile]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0))
    for title in ("target", "core", "L1D, L2 KiB", "vector bits", "kernels choose by", "QEMU CPU"):
        table.add_column(title, no_wrap=True)
    for profile in profiles:
        core = profile.core
        chosen_by = [f for f in _SHOWN if f in profile.features]
        caches = f"{core.l1d.size // 1024}, {core.l2.size // 1024}"
        qemu = profile.qemu_cpu or ""
        table.add_row(profile.name, core.name, caches, str(core.vector_bits), " ".join(chosen_by), qemu)
    family = family_profile()
    table.add_row(family.name, "any of 64 bits", "", "", "what it has", family.qemu_cpu)
    # LLVM would have to be asked, which takes seconds to load.
    table.add_row("host", "this machine", "", "", "what it has", "")
    return table


def _document(profiles: Sequence[Profile]) -> dict[str, object]:
    family = family_profile()
    return {
        "schema_version": SCHEMA_VERSION,
        "targets": [
            {
                "name": profile.name,
                "note": profile.note,
                "triple": profile.triple,
                "core": profile.core.name,
                "llvm_cpu": profile.core.llvm_cpu,
                "features": profile.features,
                "vector_bits": profile.core.vector_bits,
                "l1d": {"bytes": profile.core.l1d.size, "source": profile.core.l1d.source},
                "l2": {"bytes": profile.core.l2.size, "source": profile.core.l2.source},
                "issue_width": profile.core.issue_width,
                "source": profile.core.source,
                "mca_cpu": profile.core.mca_cpu,
                "qemu_cpu": profile.qemu_cpu,
            }
            for profile in profiles
        ],
        "families": [
            {
                "name": family.name,
                "note": family.note,
                "triple": family.triple,
                "levels": [
                    {
                        "name": level.name,
                        "core": level.profile.core.name,
                        "features": level.profile.features,
                    }
                    for level in family_levels()
                ],
                "qemu_cpu": family.qemu_cpu,
            }
        ],
    }
