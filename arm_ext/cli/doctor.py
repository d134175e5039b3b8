# SPDX-License-Identifier: Apache-2.0
"""`arm-ext doctor`."""

from typing import TYPE_CHECKING

import click
from rich.text import Text

from arm_ext.cli.console import stdout
from arm_ext.cli.options import BOARDS, json_option
from arm_ext.common.errors import EnvError
from arm_ext.common.text import visible

if TYPE_CHECKING:
    from arm_ext.api.doctor import Finding

_STYLES = {"ok": "green", "warning": "yellow", "missing": "red"}


@click.command()
@click.option(
    "--board",
    help=f"Check that this board answers, too: {BOARDS}.",
)
@json_option()
def doctor(board: str | None, as_json: bool) -> None:
    """Check this machine, and a board, and say what mends each fault.

    Exits with 3 if something is missing without which nothing works; what only some commands need is a warning.
    """
    from arm_ext.api.doctor import diagnose

    diagnosis = diagnose(board)
    if as_json:
        click.echo(diagnosis.model_dump_json(indent=2))
    else:
        for finding in diagnosis.findings:
            stdout.print(_line(finding))
    if diagnosis.missing:
        raise EnvError(f"missing: {', '.join(finding.part for finding in diagnosis.missing)}")


def _line(finding: "Finding") -> Text:
    detail = f"{finding.detail}; run: {finding.mend}" if finding.mend else finding.detail
    status = finding.status.value
    return Text.assemble((f"{status:<9}", _STYLES[status]), f"{finding.part:<18} ", visible(detail))
