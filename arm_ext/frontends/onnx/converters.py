# SPDX-License-Identifier: Apache-2.0
"""The table of operators that are converted to Relax here, not by upstream's importer.

They stay as they are, or are what others have been replaced by.
"""

from collections.abc import Callable, Sequence

import onnx
from tvm import relax

from arm_ext.frontends.onnx.expansion import OWN
from arm_ext.frontends.onnx.sequences import DEFAULTS, sequences
from arm_ext.frontends.onnx.trees import TREES, convert_trees

Convert = Callable[[relax.BlockBuilder, onnx.NodeProto, Sequence[relax.Expr | None]], relax.Expr]
"""Emits a node, of a function that is being built, with its inputs; returns its output, or a tuple of them."""

CONVERTERS: dict[tuple[str, str], Convert] = {
    **{("", kind): sequences for kind in DEFAULTS},
    (OWN, TREES): convert_trees,
}
"""(domain, operator) → what converts it."""
