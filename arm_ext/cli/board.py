# SPDX-License-Identifier: Apache-2.0
"""`arm-ext board`: start boards."""

import socket
from time import sleep

import click

from arm_ext.cli.loading import load_tvm
from arm_ext.cli.process import interrupt_on_signals
from arm_ext.common.errors import EnvError, UsageError

_POLL_SECONDS = 0.2
_TRACKER_SECONDS = 5  # to connect


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
@click.option("--key", help="Key to register under; needs --tracker.")
def virtual(cpu: str | None, tracker: str | None, key: str | None) -> None:
    """Start a virtual board and keep it until Ctrl-C."""
    load_tvm()
    # Not imported above: it loads TVM, which --help does not need.
    from arm_ext.board.virtual import VirtualServer, emulated_cpu

    if cpu == "":
        raise UsageError("--cpu: is empty; name a target or a CPU of QEMU's, or leave it out")
    if (tracker is None) != (key is None):
        raise UsageError("--tracker and --key must be given together")
    if tracker is not None:
        _reach(tracker, f"tracker-{tracker}/{key}")
    interrupt_on_signals()  # so that the end of the board is reported
    emulated = emulated_cpu(cpu or "")
    server = VirtualServer(emulated, tracker=tracker or "", key=key or "")
    try:
        name = f"tracker-{tracker}/{key}" if tracker else f"127.0.0.1:{server.port}"
        click.echo(f"virtual board ({emulated}) is up: --board {name}")
        click.echo("Ctrl-C ends it", err=True)
        while server.alive():
            sleep(_POLL_SECONDS)
        raise EnvError("the virtual board was terminated by another process")
    except KeyboardInterrupt:
        click.echo("ended", err=True)
    finally:
        server.close()


def _reach(tracker: str, name: str) -> None:
    """Check that a tracker answers: TVM's server would otherwise retry forever, without a message.

    Raises:
        UsageError: The tracker is not of the form HOST:PORT, or the key is invalid.
        EnvError: No tracker answers.
    """
    from arm_ext.board.spec import parse_spec  # not imported above: it loads TVM, which --help does not need

    spec = parse_spec(name)
    try:
        socket.create_connection((spec.host, spec.port), _TRACKER_SECONDS).close()
    except OSError as err:
        start = f"python -m tvm.exec.rpc_tracker --port {spec.port}"
        raise EnvError(f"no tracker answers at {tracker} ({err}); start one by: {start}") from err
