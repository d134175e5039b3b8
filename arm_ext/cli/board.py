# SPDX-License-Identifier: Apache-2.0
"""`arm-ext board`: start boards."""

from time import sleep

import click

from arm_ext.board.virtual import DEFAULT_CPU, VirtualServer
from arm_ext.cli.process import interrupt_on_signals
from arm_ext.errors import EnvError, UsageError

_POLL_SECONDS = 0.2


@click.group()
def board() -> None:
    """Start an emulated board."""


@board.command()
@click.option("--cpu", default=DEFAULT_CPU, show_default=True, help="CPU to emulate, as QEMU names it.")
@click.option("--tracker", metavar="HOST:PORT", help="Tracker on this machine to register with; needs --key.")
@click.option("--key", help="What to register as.")
def virtual(cpu: str, tracker: str | None, key: str | None) -> None:
    """Start a virtual board and keep it until Ctrl-C."""
    if (tracker is None) != (key is None):
        raise UsageError("--tracker and --key go together")
    interrupt_on_signals()  # so that the board is seen to end
    server = VirtualServer(cpu, tracker=tracker or "", key=key or "")
    try:
        name = f"tracker-{tracker}/{key}" if tracker else f"127.0.0.1:{server.port}"
        click.echo(f"virtual board ({cpu}) is up: --board {name}")
        click.echo("Ctrl-C ends it", err=True)
        while server.alive():
            sleep(_POLL_SECONDS)
        raise EnvError("the virtual board was ended from outside")
    except KeyboardInterrupt:
        click.echo("ended", err=True)
    finally:
        server.close()
