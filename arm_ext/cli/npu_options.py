# SPDX-License-Identifier: Apache-2.0
"""The options of `arm-ext compile` that are for an NPU."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, get_args

import click

from arm_ext.cli.console import NAMES, Number
from arm_ext.cli.options import option_group
from arm_ext.cli.path_type import PATH
from arm_ext.common.errors import UsageError
from arm_ext.ethosu.options import DEFAULT_CPU_MHZ, HANDOVER_US, NpuFallback, NpuOptions, OnNpuError

CPU_MHZ = ", ".join(f"{mhz:g} beside a {family.upper()}" for family, mhz in DEFAULT_CPU_MHZ.items())

_FAIL = "--fail-on-fallback"


class NpuCommand(click.Command):
    """A command that accepts --fail-on-fallback without a value; click would take the next argument as its value."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments, with an empty value for a bare --fail-on-fallback."""
        return super().parse_args(ctx, [f"{arg}=" if arg == _FAIL else arg for arg in args])


npu_options = option_group(
    click.option(
        "--npu",
        "accelerator",
        metavar="NAME",
        help="Compile parts of a quantised model for an Ethos-U, such as ethos-u65-256; quantised operators then "
        "compute in TOSA's numerics everywhere.",
    ),
    click.option(
        "--npu-ops",
        type=NAMES,
        default=(),
        metavar="OP,…",
        help="The only operators that may go to the NPU, even where that gains nothing: kinds (conv2d), "
        "source nodes, or their operators.",
    ),
    click.option(
        "--cpu-ops",
        type=NAMES,
        default=(),
        metavar="OP,…",
        help="Operators that stay on the CPU, named as for --npu-ops.",
    ),
    click.option(
        _FAIL,
        "fallback_ops",
        type=NAMES,
        metavar="[=OP,…]",
        help="Exit 1, with the reasons, if an operator (one of these, if named) would run on the CPU; regions then go "
        "to the NPU even where that gains nothing.",
    ),
    click.option(
        "--system-config",
        metavar="NAME",
        help="System configuration in Vela's configuration file.  [default: as suits the accelerator]",
    ),
    click.option(
        "--memory-mode",
        metavar="NAME",
        help="Memory mode in Vela's configuration file.  [default: as suits the accelerator]",
    ),
    click.option(
        "--vela-config",
        type=PATH,
        metavar="FILE",
        help="Configuration file to use instead of Vela's own vela.ini.",
    ),
    click.option(
        "--sram-budget",
        type=click.IntRange(min=0),
        metavar="BYTES",
        help="SRAM that a region may use on the NPU; fail if one needs more.",
    ),
    click.option(
        "--cpu-mhz",
        type=Number(min=0, min_open=True),
        metavar="MHZ",
        help="Clock of the CPU, for estimating what the NPU gains. The default is that of one chip of each kind."
        f"  [default: {CPU_MHZ}]",
    ),
    click.option(
        "--npu-mhz",
        type=Number(min=0, min_open=True),
        metavar="MHZ",
        help="Clock of the NPU.  [default: core_clock of the system configuration]",
    ),
    click.option(
        "--handover-us",
        type=Number(min=0),
        metavar="US",
        help="Microseconds of handing a region over and being told that it is done. The default is an assumption, "
        f"not measured.  [default: {HANDOVER_US:g}]",
    ),
    click.option(
        "--on-npu-error",
        type=click.Choice(get_args(OnNpuError)),
        help="Where an NPU is there and fails, compute on the CPU (fallback) or fail.  [default: fallback]",
    ),
    click.option(
        "--npu-fallback",
        type=click.Choice(get_args(NpuFallback)),
        help="For --emit c-library: whether it holds the CPU's code and weights for what the NPU computes, too. With "
        "none it is smaller, and a run without the NPU fails.  [default: cpu]",
    ),
)
"""Decorator that adds the options of the NPU to a command."""


NPU_OPTIONS = tuple(each.name for each in fields(NpuOptions))
"""Names of the values of these options."""


def read_npu_options(given: Mapping[str, Any]) -> NpuOptions | None:
    """Return the options for the NPU; None if none was given.

    Raises:
        UsageError: Another option of the NPU was given, but not --npu.
    """
    wanted = {name: value for name, value in given.items() if value not in (None, ())}
    if given["fallback_ops"] is not None:
        wanted.update(fail_on_fallback=True, fallback_ops=given["fallback_ops"])
    if wanted and "accelerator" not in wanted:
        named = (
            "--fail-on-fallback"
            if "fail_on_fallback" in wanted
            else f"--{next(iter(wanted)).replace('_', '-')}"
        )
        raise UsageError(f"{named} needs an NPU; name it with --npu, such as --npu ethos-u65-256")
    return NpuOptions(**wanted) if wanted else None
