# SPDX-License-Identifier: Apache-2.0
"""What torch itself computes of an exported program."""

from collections.abc import Sequence
from typing import Any

import numpy.typing as npt
import torch
from torch.export import ExportedProgram


def reference(
    program: ExportedProgram, inputs: Sequence[npt.NDArray[Any]]
) -> tuple[list[npt.NDArray[Any]], str]:
    """Return the outputs for inputs in the program's order, and torch's name and version."""
    runtime = f"torch {torch.__version__}"
    values = [torch.from_numpy(value.copy()) for value in inputs]
    spec = program.call_spec.in_spec
    try:
        with torch.no_grad():
            args, kwargs = torch.utils._pytree.tree_unflatten(values, spec)
            result = program.module()(*args, **kwargs)
    except (RuntimeError, ValueError, TypeError) as err:
        return [], f"{runtime} cannot run it: {str(err).strip().splitlines()[0]}"
    leaves = torch.utils._pytree.tree_leaves(result)
    return [leaf.detach().numpy() for leaf in leaves if isinstance(leaf, torch.Tensor)], runtime
