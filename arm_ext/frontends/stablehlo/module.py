# SPDX-License-Identifier: Apache-2.0
"""Parsing of StableHLO by jaxlib's MLIR, and refinement of its shapes.

MLIR's reader of bytecode trusts what it reads: of files with a few bytes changed, one in a hundred ends the process,
and others have it write beyond its memory, of which the process ends later, at another model. So only a process of its
own reads bytecode, for which this file is a script, without the package around it, and hands back the module as text.
(MLIR's parser of text checks what it reads.)
"""

import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from jaxlib.mlir import ir
from jaxlib.mlir._mlir_libs import _jax_mlir_ext
from jaxlib.mlir.dialects import chlo, mhlo, sdy, stablehlo
from jaxlib.mlir.passmanager import PassManager

# Parsing this pass registers the dialect of quantised types, for which jaxlib has no function.
_LOADS_QUANT = "vhlo-legalize-to-stablehlo"
_REFINE = (
    "stablehlo-refine-arguments{{types={}}},stablehlo-refine-shapes,func.func(stablehlo-canonicalize-dynamism),"
    "func.func(stablehlo-check-shape-assertions)"
)

stablehlo.register_stablehlo_passes()


class _Context(ir.Context):  # type: ignore[misc]
    """An MLIR context with only the dialects that this package registers."""

    def __init__(self) -> None:
        super(ir.Context, self).__init__()


_BYTECODE = b"ML\xefR"
# Reading takes half a second, of which the start is the largest part, and some seconds for 100 MB.
_SECONDS, _BYTES_A_SECOND = 30, 10e6
# Exit code of the process that reads bytecode if MLIR rejects the bytecode with a message.
_REFUSED = 3


class UnreadableError(Exception):
    """A file that MLIR cannot parse, or a shape that contradicts others; the message has the reason."""


def read_module(data: bytes) -> Any:
    """Parse and verify the module in a file's bytes.

    Raises:
        UnreadableError: The bytes are damaged, or no MLIR.
    """
    if not data.startswith(_BYTECODE):
        return _read(data)
    text = _text_of(data)
    try:
        return _read(text)
    except UnreadableError as err:
        raise UnreadableError(f"its bytecode is damaged: {err}") from err


def _text_of(bytecode: bytes) -> bytes:
    # With -P, Python does not search this file's folder, which has modules with the same names as packages.
    command, seconds = [sys.executable, "-P", __file__], _SECONDS + len(bytecode) / _BYTES_A_SECOND
    try:
        done = subprocess.run(command, input=bytecode, capture_output=True, check=False, timeout=seconds)
    except subprocess.TimeoutExpired as err:
        raise UnreadableError(
            f"its bytecode is damaged: MLIR has not finished reading it after {seconds:.0f} seconds"
        ) from err
    if done.returncode == _REFUSED:
        raise UnreadableError(done.stdout.decode(errors="replace"))
    if done.returncode:
        raise UnreadableError("its bytecode is damaged: MLIR crashes when reading it")
    return done.stdout


def _write_text() -> int:
    """Read bytecode from standard input; write its text, or the reason why MLIR cannot read it."""
    try:
        module = _read(sys.stdin.buffer.read())
    except UnreadableError as err:
        sys.stdout.buffer.write(str(err).encode(errors="replace"))
        return _REFUSED
    # Print debug info, because the names of operators are in their locations.
    module.operation.print(
        file=sys.stdout.buffer, binary=True, enable_debug_info=True, print_generic_op_form=True
    )
    return 0


def _read(data: bytes) -> Any:
    context = _Context()
    registry = ir.DialectRegistry()
    _jax_mlir_ext.register_dialects(registry)
    context.append_dialect_registry(registry)
    context.load_all_available_dialects()
    for dialect in (stablehlo, chlo, sdy):
        dialect.register_dialect(context)
    mhlo.register_mhlo_dialect(context)
    with context, _told(context):
        _run(_LOADS_QUANT, ir.Module.parse("module {}"))
        if not data.startswith(_BYTECODE):
            return ir.Module.parse(data)
        module = stablehlo.deserialize_portable_artifact(context, data)
        module.operation.verify()
        return module


def fix_shapes(module: Any, types: Sequence[str]) -> None:
    """Give the arguments of `main` static types, and refine all other types.

    Args:
        module: Changed in place.
        types: Types of all arguments, such as "tensor<2x3xf32>".

    Raises:
        UnreadableError: The shapes contradict the module.
    """
    with module.context, _told(module.context):
        _run(_REFINE.format(",".join(types)), module)


def take_apart(module: Any) -> None:
    """Decompose CHLO's operators into arithmetic, as jax.export does.

    Raises:
        UnreadableError: An operator has a form that MLIR's pass does not take.
    """
    with module.context, _told(module.context):
        _run("func.func(chlo-legalize-to-stablehlo)", module)


def _run(passes: str, module: Any) -> None:
    PassManager.parse(f"builtin.module({passes})").run(module.operation)


@contextmanager
def _told(context: Any) -> Iterator[None]:
    """Open a scope in which MLIR's error messages become exceptions instead of being printed."""
    said: list[str] = []

    def hear(diagnostic: Any) -> bool:
        said.append(str(diagnostic.message))
        return True

    handler = context.attach_diagnostic_handler(hear)
    try:
        yield
    except (ir.MLIRError, ValueError, RuntimeError) as err:
        # If MLIR printed no message, it is in the exception, after a line with the failed operation.
        *_, first = said[:1] or str(err).strip().splitlines()[:2] or [type(err).__name__]
        # The text has no file name; MLIR writes "-" for it.
        raise UnreadableError(
            re.sub(r'^"-":(\d+):\d+: ', r"line \1: ", first.removeprefix("error: "))
        ) from err
    finally:
        handler.detach()


if __name__ == "__main__":
    sys.exit(_write_text())
