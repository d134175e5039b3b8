# SPDX-License-Identifier: Apache-2.0
"""The first phase: one form for what importers write in many, with nothing in it that need not run.

QDQ is kept: quantise / dequantise pairs of activations and the integer constants under `dequantize` are what the
partitioner and integer arithmetic read.
"""

from collections.abc import Callable
from dataclasses import dataclass

from tvm import IRModule
from tvm.relax import transform

from relay_passes.fold_constants import fold_constants
from relay_passes.rule import Rule, apply_rules
from relay_passes.rules import fold_batch_norm
from relay_passes.upstream import name_equals, run_upstream
from relay_passes.verify import verify

RULES: tuple[Rule, ...] = (fold_batch_norm.RULE,)


@dataclass(frozen=True)
class Step:
    """One step of the phase.

    Attributes:
        name: By its effect.
        run: Module to module.
        needs: Steps that must have run before, directly or not.
    """

    name: str
    run: Callable[[IRModule], IRModule]
    needs: tuple[str, ...] = ()


def _remove_aliases(mod: IRModule) -> IRModule:
    return run_upstream(mod, transform.CanonicalizeBindings())


def _remove_dead_code(mod: IRModule) -> IRModule:
    return run_upstream(mod, transform.DeadCodeElimination())


def _merge_equal_calls(mod: IRModule) -> IRModule:
    return run_upstream(name_equals(mod), transform.EliminateCommonSubexpr())


def _apply_rules(mod: IRModule) -> IRModule:
    return apply_rules(mod, RULES)


STEPS: tuple[Step, ...] = (
    Step("remove_aliases", _remove_aliases),
    # A value that only dead code shares (BatchNorm's running mean) would keep rules from it.
    Step("remove_dead_code", _remove_dead_code),
    # Rules look for constants where importers leave calls of constants.
    Step("fold_constants", fold_constants),
    Step("apply_rules", _apply_rules, needs=("remove_aliases", "remove_dead_code", "fold_constants")),
    # Equal convolutions with different norms are no longer equal, and equal weights no longer shared.
    Step("merge_equal_calls", _merge_equal_calls, needs=("apply_rules",)),
    Step("remove_merged", _remove_dead_code, needs=("merge_equal_calls",)),
)


def canonicalize(mod: IRModule, *, debug: bool = False) -> IRModule:
    """Run all steps in order.

    Args:
        mod: As a front end returns it: A-normal form, every call named.
        debug: Verify the module after each step.

    Raises:
        ValueError: With `debug`, a step broke the module; the message names it.
    """
    for step in STEPS:
        mod = step.run(mod)
        if debug:
            verify(mod, after=step.name)
    return mod
