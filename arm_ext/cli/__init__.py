# SPDX-License-Identifier: Apache-2.0
"""The command line: one module per command. It parses options and renders results; it makes no decisions.

stdout is the result, stderr the log. Exit codes: 0 done, 1 a finding about the model, 2 usage, 3 environment,
4 a defect of this package.
"""

import errno
import importlib
import os
import sys
import tempfile
import traceback
import warnings
from collections.abc import Sequence
from pathlib import Path

import click

from arm_ext.cli import process
from arm_ext.common.errors import ArmExtError, EnvError, InternalError, UsageError
from arm_ext.common.faults import (
    environment,
    is_environment,
    is_out_of_memory,
    out_of_memory,
    require_addresses,
    require_surroundings,
    why,
)
from arm_ext.common.scratch import temporary_files

# Command → its help line. A command's module is imported when the command is called, since TVM takes a second.
_VERBS = {
    "accuracy": "Tell where a quantised model loses accuracy, layer by layer.",
    "advise": "Find what makes a model faster: other options and changes, each built and measured.",
    "bench": "Measure a package: times on a real board, instruction counts and cycle estimates on a virtual one.",
    "board": "Start an emulated board.",
    "cache": "Show and clear the cache of compiled kernels and self-tests.",
    "certify": "Run a model on every instruction-set level and number of threads, and compare the numbers.",
    "compile": "Compile a model for Arm into a package.",
    "db": "Show, merge and prune tuning databases.",
    "doctor": "Check this machine and its boards, and say what mends each fault.",
    "export-payload": "Write a package's payloads for an NPU as files and C, for boards without Linux.",
    "explain": "Tell what became of a model's layers, what rewrites save, and what would help.",
    "init": "Keep what a model's file does not say, such as shapes, in a file that all commands read.",
    "llm": "Compile language models, and generate text with them.",
    "mcp": "Serve the verbs to an agent, by the Model Context Protocol.",
    "operators": "List the operators that models of each format may have.",
    "profile": "Show what each kernel call of a model costs on a board, and what bounds it.",
    "quantize": "Quantise a float model to int8, and tell which layers lose accuracy.",
    "report": "Show where each layer of a package runs, what it costs, and what would help.",
    "run": "Run a package on a board, and check its numbers.",
    "targets": "List the target profiles.",
    "tune": "Try other parameters for a model's kernels on boards, and record what is faster.",
    "verify": "Show that a package's payloads for an NPU compute what they should, without the NPU.",
}


_WRONG_PATHS = (errno.ENAMETOOLONG, errno.ELOOP)
"""Errors of paths that no file system accepts."""
_SHOWN = 60  # characters of such a path

# Commands that work even if no file can be written.
_WITHOUT_FILES = ("doctor", "targets")


class _Verbs(click.Group):
    def list_commands(self, _ctx: click.Context) -> list[str]:
        return list(_VERBS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in _VERBS:
            return None
        if name not in _WITHOUT_FILES:  # before the import, since libraries write files when they are loaded
            ctx.with_resource(temporary_files())
        require_addresses("numpy")
        function = name.replace("-", "_")
        command = getattr(importlib.import_module(f"arm_ext.cli.{function}"), function)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(_VERBS.items()))


@click.command(cls=_Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=lambda context, _, given: _versions(context) if given else None,
    help="Show the version, and those of the packages that decide what is compiled.",
)
@click.option("-q", "--quiet", is_flag=True, help="Show no progress.")
@click.option("-v", "--verbose", is_flag=True, help="Show each step on a line of its own.")
@click.pass_context
def group(context: click.Context, quiet: bool, verbose: bool) -> None:
    """Compile models for Arm with TVM, and run them on boards."""
    if quiet and verbose:
        raise UsageError("-q and -v exclude each other")
    context.obj = "quiet" if quiet else "verbose" if verbose else ""


def _versions(context: click.Context) -> None:
    """Print the versions, and end the command."""
    from arm_ext.common.version import versions

    click.echo("\n".join(f"{name} {version}" for name, version in versions().items()))
    context.exit()


def main(argv: Sequence[str] | None = None) -> None:
    """Run a command line and exit with its code; an error becomes a message, never a traceback."""
    os.environ["PYTHONSAFEPATH"] = "1"  # child processes must not import modules from the working folder
    try:
        require_surroundings()
    except EnvError as err:  # before the first thread, which needs enough stack
        click.echo(f"error: {err}", err=True)
        sys.exit(err.exit_code)
    if not sys.warnoptions:
        warnings.simplefilter("ignore")  # warnings of libraries do not concern the model
    process.prepare()
    try:
        Path.cwd()
    except OSError as err:  # otherwise, libraries that are loaded below would end the process
        click.echo(f"error: the working folder cannot be used ({err.strerror}); change to another", err=True)
        process.leave(EnvError.exit_code)
    try:
        code = invoke(sys.argv[1:] if argv is None else argv)
    except KeyboardInterrupt:  # a second Ctrl-C, while the first was handled
        process.ignore_signals()
        code = _aborted()
    process.leave(code)


def invoke(argv: Sequence[str]) -> int:
    """Run a command line and return its exit code."""
    try:
        # Click returns the code of ctx.exit() here, and None from a command that returns normally.
        return group.main(list(argv), prog_name="arm-ext", standalone_mode=False) or 0
    except click.ClickException as err:
        err.show()
        if "unexpected extra argument" in err.format_message() and "--shape" in argv:
            # A shell has expanded unquoted braces.
            click.echo("Braces of --shape stand in quotes: --shape 'NAME=1,{64,128}'", err=True)
        return err.exit_code
    except (click.Abort, process.EndedError):
        return _aborted()
    except ArmExtError as err:
        # A library may have turned the signal that ended this process into an error.
        return _aborted() if process.was_ended() else _told(err)
    except MemoryError as err:
        return _told(out_of_memory(str(err)))
    except Exception as err:
        if process.was_ended():
            return _aborted()
        if isinstance(err, OSError) and err.errno in _WRONG_PATHS:
            return _told(UsageError(why(err, f"{str(err.filename)[:_SHOWN]}…")))
        if isinstance(err, OSError) and is_environment(err):
            return _told(environment(err, Path.cwd(), Path(tempfile.gettempdir())))
        if is_out_of_memory(err):
            return _told(out_of_memory())
        if os.environ.get("ARM_EXT_DEBUG"):
            traceback.print_exc()
        lines = str(err).strip().splitlines()
        click.echo(
            f"internal error: {type(err).__name__}: {lines[-1] if lines else ''}\n"
            "This is a defect of arm-ext. ARM_EXT_DEBUG=1 prints where; compile --dump-phases DIR shows each step.",
            err=True,
        )
        return InternalError.exit_code


def _aborted() -> int:
    click.echo("aborted", err=True)
    return process.code_of_end()


def _told(error: ArmExtError) -> int:
    click.echo(f"error: {error}", err=True)
    return error.exit_code
