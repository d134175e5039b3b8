# SPDX-License-Identifier: Apache-2.0
"""A PyTorch module with example inputs becomes an exported program."""

import logging
import sysconfig
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.export import ExportedProgram

from arm_ext.errors import ModelError, UsageError
from arm_ext.frontends.refuse import reason_of

# Listed at most, so that a message fits on a screen.
_SHOWN = 3
# Where code lies that is not the module's own.
_TORCH, _PYTHON = Path(torch.__file__).parent, Path(sysconfig.get_paths()["stdlib"])


def export_module(module: object, example_inputs: Sequence[Any]) -> ExportedProgram:
    """Export a module for inference with the shapes and types of its examples.

    Args:
        module: In eval mode.
        example_inputs: The positional arguments of its `forward`.

    Raises:
        UsageError: It is no module; it is in training mode; the examples are no tuple, or none that `forward` takes.
        ModelError: torch.export cannot take it; the message has torch's reason, and where in the module it is.
    """
    if not isinstance(module, nn.Module):
        raise UsageError(
            f"example_inputs are for a torch.nn.Module, and the model is a {type(module).__name__}"
        )
    if not isinstance(example_inputs, tuple | list):
        kind = type(example_inputs).__name__
        raise UsageError(f"example_inputs must be a tuple of forward's arguments, not a {kind}")
    name = type(module).__name__
    if training := [path or name for path, part in module.named_modules() if part.training]:
        more = f" and {len(training) - _SHOWN} more" if len(training) > _SHOWN else ""
        raise UsageError(
            f"{name} is in training mode ({', '.join(training[:_SHOWN])}{more}), in which batch norms and "
            "dropout compute something else than in inference; call its eval() first"
        )
    try:
        with torch.no_grad(), quiet():
            return torch.export.export(module, tuple(example_inputs))
    except Exception as err:  # of many types, those of the module's own code among them
        where = _where(err)
        if isinstance(err, TypeError) and not where:
            raise UsageError(f"example_inputs do not fit {name}.forward: {reason_of(err, 0)}") from err
        raise ModelError(f"torch.export cannot export {name}{where}: {reason_of(err, 0)}") from err


@contextmanager
def quiet() -> Iterator[None]:
    """Keep back torch's log: it prints tracebacks of failures that the exception tells of."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)


def _where(err: Exception) -> str:
    """The innermost line of the module's own code."""
    own = [frame for frame in traceback.extract_tb(err.__traceback__) if _is_own(Path(frame.filename))]
    return f", {own[-1].filename} line {own[-1].lineno}: `{own[-1].line}`" if own else ""


def _is_own(path: Path) -> bool:
    if path.is_relative_to(_TORCH) or path == Path(__file__) or not path.is_file():
        return False
    return not path.is_relative_to(_PYTHON) or "site-packages" in path.parts
