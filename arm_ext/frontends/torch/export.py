# SPDX-License-Identifier: Apache-2.0
"""Export of a PyTorch module with example inputs to an exported program."""

import contextlib
import io
import logging
import sys
import sysconfig
import traceback
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.export import ExportedProgram

from arm_ext.common.errors import ModelError, UsageError
from arm_ext.frontends.common.refuse import reason_of

# Maximum number of names in a message, so that it fits on a screen.
_SHOWN = 3
# Folders with code that does not belong to the user's module.
_TORCH, _PYTHON = Path(torch.__file__).parent, Path(sysconfig.get_paths()["stdlib"])


def export_module(module: object, example_inputs: Sequence[Any] | Mapping[str, Any]) -> ExportedProgram:
    """Export a module for inference with the shapes and types of its examples.

    Args:
        module: Module in eval mode.
        example_inputs: The arguments of its `forward`, positional, or by name.

    Raises:
        UsageError: The object is no module, or one in training mode, or `forward` does not take the examples.
        ModelError: torch.export cannot take it; the message has torch's reason, and where in the module it is.
    """
    if not isinstance(module, nn.Module):
        raise UsageError(
            f"example_inputs are for a torch.nn.Module, and the model is a {type(module).__name__}"
        )
    if not isinstance(example_inputs, tuple | list | Mapping):
        kind = type(example_inputs).__name__
        raise UsageError(f"example_inputs must be a tuple or a dict of forward's arguments, not a {kind}")
    is_named = isinstance(example_inputs, Mapping)
    args, kwargs = ((), dict(example_inputs)) if is_named else (tuple(example_inputs), {})
    name = type(module).__name__
    if training := [path or name for path, part in module.named_modules() if part.training]:
        more = f" and {len(training) - _SHOWN} more" if len(training) > _SHOWN else ""
        raise UsageError(
            f"{name} is in training mode ({', '.join(training[:_SHOWN])}{more}), in which batch norms and "
            "dropout compute something else than in inference; call its eval() first"
        )
    try:
        with torch.no_grad(), quiet():
            return torch.export.export(module, args, kwargs)
    except Exception as err:  # exceptions of many types, including those of the user's module
        where = _where(err)
        if isinstance(err, TypeError) and not where:
            raise UsageError(f"example_inputs do not match {name}.forward: {reason_of(err, 0)}") from err
        raise ModelError(f"torch.export cannot export {name}{where}: {reason_of(err, 0)}") from err


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Suppress torch's log and warnings, and what it prints to stderr before it raises an exception."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    printed = io.StringIO()
    try:
        with warnings.catch_warnings(), contextlib.redirect_stderr(printed):
            warnings.simplefilter("ignore")
            yield
        # If there is no exception, stderr has only output of the user's module; torch prints only when it fails.
        sys.stderr.write(printed.getvalue())
    finally:
        logging.disable(before)


def _where(err: Exception) -> str:
    """Return, for messages, the innermost line of the user's code in a traceback; "" if there is none."""
    own = [frame for frame in traceback.extract_tb(err.__traceback__) if _is_own(Path(frame.filename))]
    return f", {own[-1].filename} line {own[-1].lineno}: `{own[-1].line}`" if own else ""


def _is_own(path: Path) -> bool:
    if path.is_relative_to(_TORCH) or path == Path(__file__) or not path.is_file():
        return False
    return not path.is_relative_to(_PYTHON) or "site-packages" in path.parts
