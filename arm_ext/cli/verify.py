# SPDX-License-Identifier: Apache-2.0
"""`arm-ext verify`."""

import json
import textwrap
from collections.abc import Iterator
from pathlib import Path

import click

from arm_ext.api.verify import VerifyReport, certified
from arm_ext.api.verify import verify as verify_package
from arm_ext.cli.options import json_option
from arm_ext.cli.path_type import PATH
from arm_ext.common.errors import InternalError, UsageError
from arm_ext.common.text import columns
from arm_ext.package import CERTIFICATE

_WIDTH = 110  # columns of prose


@click.command()
@click.argument("package", type=PATH)
@click.option("--npu", is_flag=True, help="Verify the payloads for an NPU, by a functional model of it.")
@click.option(
    "--certificate",
    type=PATH,
    metavar="FILE.json",
    help="Verify that this certificate of `arm-ext certify` is of PACKAGE, and unchanged.  [default: PACKAGE's own]",
)
@json_option()
def verify(package: Path, npu: bool, certificate: Path | None, as_json: bool) -> None:
    """Verify the certificate of PACKAGE, or its payloads for an NPU.

    A certificate must be unchanged, and of the package's model.so; the levels that it certifies are printed.

    With --npu each region's payload runs on a functional model of the Ethos-U, and the region's TOSA graph on TOSA's
    reference model: on the self-test's values, where the CPU's results are compared too, on random ones, and on the
    least and greatest of their type. All bytes must be equal.
    """
    if npu and certificate is not None:
        raise UsageError("--npu and --certificate are two verifications: take one at a time")
    if not npu:
        if certificate is None and package.is_dir() and not (package / CERTIFICATE).exists():
            raise UsageError(
                f"{package} has no {CERTIFICATE}, which `arm-ext certify {package} --record` leaves there; or name "
                "one by --certificate FILE.json, or verify the payloads for an NPU by --npu"
            )
        levels = certified(package, certificate)
        said = f"{package}: certified for {', '.join(levels)}"
        click.echo(json.dumps({"certified": levels}, indent=2) if as_json else said)
        return
    report = verify_package(package)
    click.echo(report.model_dump_json(indent=2) if as_json else "\n".join(_lines(report)))
    if not report.equal:
        raise InternalError(
            f"{package}: a payload computes wrong values; compile again with --cpu-ops for its "
            "operators, and report it"
        )


def _lines(report: VerifyReport) -> Iterator[str]:
    if not report.regions:
        yield f"{report.accelerator}: no region, all of the model runs on the CPU"
        return
    yield f"{report.accelerator}: {len(report.regions)} region{'' if len(report.regions) == 1 else 's'}"
    rows = [
        (region.payload, run.inputs, f"{run.bytes:,}", _said(run.reference_differs), _said(run.cpu_differs))
        for region in report.regions
        for run in region.runs
    ]
    yield from columns([("payload", "inputs", "bytes", "TOSA reference model", "CPU"), *rows])
    verdict = "All are equal." if report.equal else "They are NOT equal."
    yield from ("", verdict)
    yield from textwrap.wrap(f"What that shows: {report.proves}", _WIDTH)
    yield from textwrap.wrap(f"What it does not: {report.proves_not}", _WIDTH)


def _said(differing: int | None) -> str:
    return "-" if differing is None else "equal" if differing == 0 else f"{differing:,} DIFFER"
