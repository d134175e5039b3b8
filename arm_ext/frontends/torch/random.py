# SPDX-License-Identifier: Apache-2.0
"""Operators that draw random numbers, of which upstream's importer makes constants or the identity."""

from typing import TYPE_CHECKING, Any, NoReturn

import torch

if TYPE_CHECKING:
    from tvm.relax.frontend.torch.exported_program_translator import ExportedProgramImporter

NAMES = ("bernoulli.p", "exponential.default", "randn.default", "randn_like.default")
DROPOUTS = ("dropout.default", "dropout_.default", "native_dropout.default")


def refuse_random(importer: "ExportedProgramImporter", node: torch.fx.Node, a: dict[str, Any]) -> NoReturn:
    """Refuse the operator.

    Raises:
        ValueError: Always.
    """
    raise ValueError(
        "it draws random numbers, and a compiled model returns the same for the same inputs; make the numbers an "
        "input of the model, or leave out what only training needs"
    )


def dropout(importer: "ExportedProgramImporter", node: torch.fx.Node, a: dict[str, Any]) -> Any:
    """Convert dropout outside of training, which does nothing.

    Raises:
        ValueError: The program was exported with a dropout that is in training mode.
    """
    if a["train"] and a["p"] != 0:
        raise ValueError(
            f"a dropout with p = {a['p']} in training mode draws random numbers; functional.dropout is in it unless "
            "it is called with training=self.training"
        )
    # The second value, a mask, is for training alone.
    return a["input"] if isinstance(node.meta["val"], torch.Tensor) else [a["input"]]
