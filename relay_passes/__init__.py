# SPDX-License-Identifier: Apache-2.0
"""Graph rewrites over Relax. Knows TVM and numpy, nothing of the product or of the schedules."""

from relay_passes.add_step import RESET, STEP, add_step
from relay_passes.canonicalize import canonicalize
from relay_passes.combine_matmuls import combine_matmuls
from relay_passes.dispatch import Offer, dispatch, inline_marked
from relay_passes.dynamic_products import dynamic_products
from relay_passes.fold_constants import fold_constants
from relay_passes.fuse import fuse
from relay_passes.half_precision import to_half_precision
from relay_passes.integerize import LeftFloat, integerize
from relay_passes.layout import KeptLayout, to_nhwc
from relay_passes.lend_workspaces import lend_workspaces
from relay_passes.offsets import accept_offsets
from relay_passes.origins import copy_constants
from relay_passes.outline import Part, outline
from relay_passes.plan_arena import plan_arena
from relay_passes.rule import Explanation, Match, Rejection, Rule, apply_rules, explain
from relay_passes.sources import function_sources, name_bindings, sources_of, unnamed_calls, with_source
from relay_passes.split_concat import split_concat
from relay_passes.upstream import run_upstream
from relay_passes.verify import verify

__all__ = [
    "RESET",
    "STEP",
    "Explanation",
    "KeptLayout",
    "LeftFloat",
    "Match",
    "Offer",
    "Part",
    "Rejection",
    "Rule",
    "accept_offsets",
    "add_step",
    "apply_rules",
    "canonicalize",
    "combine_matmuls",
    "copy_constants",
    "dispatch",
    "dynamic_products",
    "explain",
    "fold_constants",
    "function_sources",
    "fuse",
    "inline_marked",
    "integerize",
    "lend_workspaces",
    "name_bindings",
    "outline",
    "plan_arena",
    "run_upstream",
    "sources_of",
    "split_concat",
    "to_half_precision",
    "to_nhwc",
    "unnamed_calls",
    "verify",
    "with_source",
]
