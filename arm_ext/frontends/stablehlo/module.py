# SPDX-License-Identifier: Apache-2.0
"""Reading StableHLO by jaxlib's MLIR: text, or the portable bytecode that jax.export writes; fixing its shapes.

MLIR's reader of bytecode trusts what it reads: of files with a few bytes changed, one in a hundred ends the process.
So a process of its own reads it before, for which this file is a script, without the package around it. (Its parser of
text has never done so.)
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

# Registers the dialect of quantised types, for which there is no function of its own.
_LOADS_QUANT = "vhlo-legalize-to-stablehlo"
_REFINE = (
    "stablehlo-refine-arguments{{types={}}},stablehlo-refine-shapes,func.func(stablehlo-canonicalize-dynamism),"
    "func.func(stablehlo-check-shape-assertions)"
)

stablehlo.register_stablehlo_passes()


class _Context(ir.Context):  # type: ignore[misc]
    """A context with the dialects that are asked for only."""

    def __init__(self) -> None:
        super(ir.Context, self).__init__()


_BYTECODE = b"ML\xefR"
# Reading takes half a second, most of it to start, and some seconds for 100 MB.
_SECONDS, _BYTES_A_SECOND = 30, 10e6


class UnreadableError(Exception):
    """A file that MLIR cannot read, or a shape that contradicts others; the message says why."""


def read_module(data: bytes) -> Any:
    """Return the module in a file's bytes, verified.

    Raises:
        UnreadableError: It is damaged, or no MLIR.
    """
    if data.startswith(_BYTECODE):
        _try_out(data)
    return _read(data)


def _try_out(bytecode: bytes) -> None:
    # -P: beside this file are modules with the names of packages.
    command, seconds = [sys.executable, "-P", __file__], _SECONDS + len(bytecode) / _BYTES_A_SECOND
    try:
        code = subprocess.run(
            command, input=bytecode, capture_output=True, check=False, timeout=seconds
        ).returncode
    except subprocess.TimeoutExpired as err:
        raise UnreadableError(f"its bytecode is damaged: MLIR reads it for {seconds:.0f} seconds") from err
    if code < 0:
        raise UnreadableError("its bytecode is damaged: MLIR does not survive reading it")


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
    """Give the arguments of `main` static types, and what follows from them too.

    Args:
        module: Changed in place.
        types: Of all arguments, such as "tensor<2x3xf32>".

    Raises:
        UnreadableError: The shapes contradict the module.
    """
    with module.context, _told(module.context):
        _run(_REFINE.format(",".join(types)), module)


def take_apart(module: Any) -> None:
    """Make arithmetic of CHLO's operators, as jax.export does.

    Raises:
        UnreadableError: One of them has a form that MLIR's pass does not take.
    """
    with module.context, _told(module.context):
        _run("func.func(chlo-legalize-to-stablehlo)", module)


def _run(passes: str, module: Any) -> None:
    PassManager.parse(f"builtin.module({passes})").run(module.operation)


@contextmanager
def _told(context: Any) -> Iterator[None]:
    """Raise what MLIR says of an error, instead of printing it."""
    said: list[str] = []

    def hear(diagnostic: Any) -> bool:
        said.append(str(diagnostic.message))
        return True

    handler = context.attach_diagnostic_handler(hear)
    try:
        yield
    except (ir.MLIRError, ValueError, RuntimeError) as err:
        # Otherwise it is in the exception, behind a line of what failed.
        *_, first = said[:1] or str(err).strip().splitlines()[:2] or [type(err).__name__]
        # The text has no name, which MLIR writes as "-".
        raise UnreadableError(
            re.sub(r'^"-":(\d+):\d+: ', r"line \1: ", first.removeprefix("error: "))
        ) from err
    finally:
        handler.detach()


if __name__ == "__main__":
    _read(sys.stdin.buffer.read()).operation.get_asm(large_elements_limit=1, large_resource_limit=1)
