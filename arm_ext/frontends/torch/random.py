# SPDX-License-Identifier: Apache-2.0
"""Operators that draw random numbers, which TVM's importer would turn into constants or the identity."""

from typing import TYPE_CHECKING, Any, NoReturn

import torch

if TYPE_CHECKING:
    from tvm.relax.frontend.torch.exported_program_translator import ExportedProgramImporter

NAMES = ("bernoulli.p", "exponential.default", "randn.default", "randn_like.default")
DROPOUTS = ("dropout.default", "dropout_.default", "native_dropout.default")


def refuse_random(importer: "ExportedProgramImporter", node: torch.fx.Node, a: dict[str, Any]) -> NoReturn:
    """Refuse an operator that draws random numbers.

    Raises:
        ValueError: Always.
    """
    raise ValueError(
        "it draws random numbers, and a compiled model returns the same for the same inputs; make the numbers an "
        "input of the model, or leave out what only training needs"
    )


def dropout(importer: "ExportedProgramImporter", node: torch.fx.Node, a: dict[str, Any]) -> Any:
    """Convert dropout outside of training to the identity.

    Raises:
        ValueError: The program was exported with a dropout that is in training mode.
    """
    if a["train"] and a["p"] != 0:
        raise ValueError(
            f"a dropout with p = {a['p']} in training mode draws random numbers; functional.dropout is in this "
            "mode unless "
            "it is called with training=self.training"
        )
    # The second value is a mask, which only training needs.
    return a["input"] if isinstance(node.meta["val"], torch.Tensor) else [a["input"]]
