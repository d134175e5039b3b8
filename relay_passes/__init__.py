# SPDX-License-Identifier: Apache-2.0
"""Graph rewrites over Relax (not Relay, in spite of the package's name).

The package depends on TVM, numpy and `schedules.diagnostic`, and on no other module of `schedules`.
"""

from relay_passes.canonicalize.canonicalize import canonicalize
from relay_passes.canonicalize.fold_constants import fold_constants
from relay_passes.canonicalize.unpack_weights import unpack_weights
from relay_passes.channels import RemovedChannels, remove_channels
from relay_passes.fusion.combine_matmuls import combine_matmuls
from relay_passes.fusion.fuse import fuse
from relay_passes.fusion.split_concat import split_concat
from relay_passes.integerize import integerize
from relay_passes.integerize.dynamic_products import dynamic_products
from relay_passes.integerize.grouped_products import grouped_products
from relay_passes.ir.sources import function_sources, name_bindings, sources_of, unnamed_calls, with_source
from relay_passes.ir.upstream import run_upstream
from relay_passes.ir.verify import verify
from relay_passes.layout import to_nhwc
from relay_passes.memory.alias_analysis import copy_constants
from relay_passes.memory.hoist_workspaces import Workspace, hoist_all, hoist_workspaces, parallel_loops
from relay_passes.memory.parallel_parts import parallel_parts
from relay_passes.memory.plan_arena import plan_arena
from relay_passes.memory.serial_loops import serial_loops
from relay_passes.memory.storage_offsets import accept_offsets
from relay_passes.memory.view_slices import view_slices
from relay_passes.precision.half_precision import to_half_precision
from relay_passes.programs.add_step import RESET, STEP, add_step
from relay_passes.programs.device_dispatch import Offer, dispatch, inline_marked
from relay_passes.programs.outline import Part, outline
from relay_passes.rewriter.engine import apply_rules, explain
from relay_passes.rewriter.rule import Explanation, Match, Rule
from schedules.diagnostic import Diagnostic

__all__ = [
    "RESET",
    "STEP",
    "Diagnostic",
    "Explanation",
    "Match",
    "Offer",
    "Part",
    "RemovedChannels",
    "Rule",
    "Workspace",
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
    "grouped_products",
    "hoist_all",
    "hoist_workspaces",
    "inline_marked",
    "integerize",
    "name_bindings",
    "outline",
    "parallel_loops",
    "parallel_parts",
    "plan_arena",
    "remove_channels",
    "run_upstream",
    "serial_loops",
    "sources_of",
    "split_concat",
    "to_half_precision",
    "to_nhwc",
    "unnamed_calls",
    "unpack_weights",
    "verify",
    "view_slices",
    "with_source",
]
