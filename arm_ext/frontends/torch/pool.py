# SPDX-License-Identifier: Apache-2.0
"""Max pooling with indices of which only the maxima are read."""

import operator
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from tvm.relax.frontend.torch.exported_program_translator import ExportedProgramImporter


def maxima(importer: "ExportedProgramImporter", node: torch.fx.Node, _: dict[str, Any]) -> Any:
    """Convert max_pool{2,3}d_with_indices.

    Raises:
        ValueError: The places are read.
    """
    if any(user.target is operator.getitem and user.args[1] == 1 for user in node.users):
        raise ValueError("where the maxima stand (return_indices) is not supported")
    rank = len(node.meta["val"][0].shape) - 2
    return getattr(importer, f"_max_pool{rank}d_with_indices")(node)
