# SPDX-License-Identifier: Apache-2.0
"""`arm-ext export-payload`."""

from pathlib import Path

import click

from arm_ext.api.export_payload import export_payload as export
from arm_ext.cli.options import json_option
from arm_ext.cli.path_type import PATH
from arm_ext.common.text import columns


@click.command("export-payload")
@click.argument("package", type=PATH)
@click.option("-o", "--output", type=PATH, required=True, help="Folder to write to.")
@click.option("--force", is_flag=True, help="Replace files of an earlier export even if they were changed.")
@json_option()
def export_payload(package: Path, output: Path, force: bool, as_json: bool) -> None:
    """Write the payloads of PACKAGE for an Ethos-U without Linux: raw files, and C that runs them.

    Writes commands and weights of each region, and for the model a C header with sizes and the table of inputs and
    outputs, a C source that calls ethosu_invoke_v3 of Arm's ethos-u-core-driver, and an assembler source that
    includes the files.
    """
    report = export(package, output, force=force)
    if as_json:
        click.echo(report.model_dump_json(indent=2))
        return
    regions = f"{report.regions} region{'' if report.regions == 1 else 's'}"
    click.echo(f"{output}: {regions} for {report.accelerator}")
    click.echo("\n".join(columns([("file", "bytes"), *((f.path, f"{f.bytes:,}") for f in report.files)])))
