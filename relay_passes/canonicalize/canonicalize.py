# SPDX-License-Identifier: Apache-2.0
"""The phase `canonicalize`: a single form for computations that importers write differently, without redundant calls.

The QDQ form is kept: the NPU partitioner and `integerize` read quantise / dequantise pairs of activations, and integer
constants under `dequantize`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tvm import IRModule, relax
from tvm.ir import Op
from tvm.relax import transform

from relay_passes.canonicalize.define_division import define_division
from relay_passes.canonicalize.define_rounding import define_rounding
from relay_passes.canonicalize.define_shifts import define_shifts
from relay_passes.canonicalize.define_sorts import define_sorts
from relay_passes.canonicalize.fold_constants import fold_constants
from relay_passes.canonicalize.keep_zeros import keep_zeros
from relay_passes.canonicalize.merge_constants import merge_constants
from relay_passes.canonicalize.recognize_kernels import recognize_kernels
from relay_passes.ir.sources import bindings_of, relax_functions
from relay_passes.ir.upstream import name_equals, run_upstream
from relay_passes.ir.verify import verify
from relay_passes.rewriter.engine import apply_rules
from relay_passes.rewriter.record import RewriteRecord
from relay_passes.rewriter.rule import Rule
from relay_passes.rules.registry import NOT_IF_QUANTIZED, RULES, TIDY


@dataclass(frozen=True)
class CanonicalizeStep:
    """One step of the phase `canonicalize`.

    Attributes:
        name: Name of the step, by its effect.
        run: The pass: a function from module to module.
        needs: Names of the steps that must have run at any time before.
        has_rules: Whether `run` has the parameters `debug`, to verify the module after each rule, and `record`.
    """

    name: str
    run: Callable[..., IRModule]
    needs: tuple[str, ...] = ()
    has_rules: bool = False


def _remove_aliases(mod: IRModule) -> IRModule:
    return run_upstream(mod, transform.CanonicalizeBindings())


def _remove_dead_code(mod: IRModule) -> IRModule:
    return run_upstream(mod, transform.DeadCodeElimination())


def _merge_equal_calls(mod: IRModule) -> IRModule:
    return run_upstream(name_equals(mod), transform.EliminateCommonSubexpr())


def rules_for(mod: IRModule) -> tuple[Rule, ...]:
    """Return the rewrite rules for a module; for a quantised module, no rules that change last bits of floats."""
    return tuple(rule for rule in RULES if rule not in NOT_IF_QUANTIZED) if _quantises(mod) else RULES


def _quantises(mod: IRModule) -> bool:
    quantize = Op.get("relax.quantize")
    calls = (b.value for _, func in relax_functions(mod) for b in bindings_of(func))
    return any(isinstance(call, relax.Call) and call.op.same_as(quantize) for call in calls)


def _tidy(mod: IRModule, *, debug: bool, record: RewriteRecord | None) -> IRModule:
    return _to_fixed_point(mod, TIDY, debug, record)


def _apply_rules(mod: IRModule, *, debug: bool, record: RewriteRecord | None) -> IRModule:
    return _to_fixed_point(mod, rules_for(mod), debug, record)


def _to_fixed_point(
    mod: IRModule, rules: Sequence[Rule], debug: bool, record: RewriteRecord | None
) -> IRModule:
    """Apply rules until none applies; aliases that rules leave for replaced calls are removed."""
    while True:
        after = apply_rules(mod, rules, debug=debug, record=record)
        if after.same_as(mod):
            return mod
        mod = _remove_aliases(after)


STEPS: tuple[CanonicalizeStep, ...] = (
    CanonicalizeStep("remove_aliases", _remove_aliases),
    # Rules do not match a value with a second consumer, even if it is dead code, such as BatchNorm's running mean.
    CanonicalizeStep("remove_dead_code", _remove_dead_code),
    # Before constants are folded, because folding must compute the defined results of divisions and shifts, too.
    CanonicalizeStep("define_division", define_division),
    CanonicalizeStep("define_shifts", define_shifts),
    CanonicalizeStep("define_rounding", define_rounding),
    CanonicalizeStep("define_sorts", define_sorts),
    CanonicalizeStep("keep_zeros", keep_zeros),
    # Rules match constants, for which importers may have calls on constants.
    CanonicalizeStep(
        "fold_constants",
        fold_constants,
        needs=("define_division", "define_shifts", "define_rounding", "define_sorts", "keep_zeros"),
    ),
    # Rules match operators, for which importers may have kernels; recognising these needs folded constants.
    CanonicalizeStep("recognize_kernels", recognize_kernels, needs=("fold_constants",)),
    # An alias that only a removed call needed would count as a second consumer of its value.
    CanonicalizeStep("tidy", _tidy, needs=("remove_aliases",), has_rules=True),
    CanonicalizeStep(
        "apply_rules",
        _apply_rules,
        needs=("remove_aliases", "remove_dead_code", "fold_constants", "recognize_kernels", "tidy"),
        has_rules=True,
    ),
    # Merge constants first, so that calls on equal constants are equal.
    CanonicalizeStep("merge_constants", merge_constants, needs=("apply_rules",)),
    # Merge calls after the rules: if different norms were folded into equal convolutions, these now differ.
    CanonicalizeStep("merge_equal_calls", _merge_equal_calls, needs=("merge_constants",)),
    CanonicalizeStep("remove_merged", _remove_dead_code, needs=("merge_equal_calls",)),
)


def without_rules(mod: IRModule) -> IRModule:
    """Run the steps before the first rule: importers' kernels become operators, and constants are folded.

    The calls that are left are those of the source, each with its own name.

    Args:
        mod: As for `canonicalize`.
    """
    for step in STEPS:
        if step.has_rules:
            break
        mod = step.run(mod)
    return _remove_dead_code(mod)


def canonicalize(mod: IRModule, *, debug: bool = False, record: RewriteRecord | None = None) -> IRModule:
    """Run all steps in order.

    Args:
        mod: As a front end returns it: A-normal form, every call named.
        debug: Verify the module after each rule and each step.
        record: Records each run of a rule, unless None.

    Raises:
        ValueError: With `debug`, a rule or a step broke the module; the message names it.
    """
    for step in STEPS:
        mod = step.run(mod, debug=debug, record=record) if step.has_rules else step.run(mod)
        if debug:
            verify(mod, after=step.name)
    return mod
