# SPDX-License-Identifier: Apache-2.0
"""`arm-ext board`: start boards."""

from time import sleep

import click

from arm_ext.cli.process import interrupt_on_signals
from arm_ext.errors import EnvError, UsageError

_POLL_SECONDS = 0.2


@click.group()
def board() -> None:
    """Start an emulated board."""


@board.command()
@click.option(
    "--cpu",
    show_default="NEON with all features",
    help="CPU to emulate: a target's name, or as QEMU names it.",
)
@click.option("--tracker", metavar="HOST:PORT", help="Tracker on this machine to register with; needs --key.")
@click.option("--key", help="What to register as.")
def virtual(cpu: str | None, tracker: str | None, key: str | None) -> None:
    """Start a virtual board and keep it until Ctrl-C."""
    # Not above: it loads TVM, for which --help need not wait.
    from arm_ext.board.virtual import VirtualServer, emulated_cpu

    if (tracker is None) != (key is None):
        raise UsageError("--tracker and --key go together")
    interrupt_on_signals()  # so that the board is seen to end
    emulated = emulated_cpu(cpu or "")
    server = VirtualServer(emulated, tracker=tracker or "", key=key or "")
    try:
        name = f"tracker-{tracker}/{key}" if tracker else f"127.0.0.1:{server.port}"
        click.echo(f"virtual board ({emulated}) is up: --board {name}")
        click.echo("Ctrl-C ends it", err=True)
        while server.alive():
            sleep(_POLL_SECONDS)
        raise EnvError("the virtual board was ended from outside")
    except KeyboardInterrupt:
        click.echo("ended", err=True)
    finally:
        server.close()
