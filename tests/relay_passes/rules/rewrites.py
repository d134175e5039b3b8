# SPDX-License-Identifier: Apache-2.0
"""What tests of rules ask: the graph after a rule, its values, and why it did not apply."""

from collections.abc import Callable

import numpy as np
import tvm
from tvm import relax
from tvm.ir import Expr

from relay_passes.ir.sources import bindings_of, sources_of, unnamed_calls
from relay_passes.ir.upstream import run_upstream
from relay_passes.rewriter.engine import apply_rule, explain
from relay_passes.rewriter.rule import Rule
from schedules.diagnostic import Diagnostic
from tests.relay_passes.graphs import Net, inputs_of, run

# Unit roundoff of float32: how far one rounding is from the exact result, relative to it.
ROUNDOFF = float(np.finfo(np.float32).eps) / 2


def graph(build: Callable[..., Expr], *inputs: relax.Var) -> tvm.IRModule:
    """The function that `build(net, *inputs)` emits."""
    net = Net()
    return net.module(inputs, lambda: build(net, *inputs))


def rewritten(mod: tvm.IRModule, rule: Rule, times: int = 1) -> tvm.IRModule:
    """`mod` after `rule`, which applies so many times, without aliases."""
    after, explanation = apply_rule(mod, rule)
    assert len(explanation.applied) == times, explanation
    assert unnamed_calls(after) == []
    after = run_upstream(after, relax.transform.CanonicalizeBindings())
    assert apply_rule(after, rule)[0].same_as(after)
    return after


def rejection(mod: tvm.IRModule, rule: Rule) -> Diagnostic:
    """Why the rule does not apply to its only match."""
    explanation = explain(mod, rule)
    assert explanation.applied == ()
    assert apply_rule(mod, rule)[0].same_as(mod)
    (found,) = explanation.rejected
    return found


def near_miss(mod: tvm.IRModule, rule: Rule) -> str:
    """What does not fit at the only place where the rule's pattern nearly matches."""
    explanation = explain(mod, rule)
    assert (explanation.applied, explanation.rejected) == ((), ())
    (found,) = explanation.near_misses
    return mismatch(found)


def mismatch(near: Diagnostic) -> str:
    """The operators that match, and what does not."""
    assert "of the pattern do" in near.reason
    return f"{', '.join(near.nodes)}: expected {near.limit}, found {near.actual}"


def both(before: tvm.IRModule, after: tvm.IRModule) -> tuple[np.ndarray, np.ndarray]:
    """The values of two modules on the same inputs."""
    inputs = inputs_of(before)
    return run(before, *inputs), run(after, *inputs)


def relative_error(before: tvm.IRModule, after: tvm.IRModule) -> float:
    """The largest difference between the values of two modules, relative to the largest value."""
    expected, actual = both(before, after)
    assert actual.shape == expected.shape
    assert actual.dtype == expected.dtype
    return float(np.abs(actual - expected).max() / np.abs(expected).max())


def assert_equal(before: tvm.IRModule, after: tvm.IRModule) -> None:
    """Two modules compute the same, bit for bit."""
    expected, actual = both(before, after)
    assert actual.dtype == expected.dtype
    np.testing.assert_array_equal(actual, expected)


def names(mod: tvm.IRModule) -> list[tuple[str, ...]]:
    """Source names of the calls of `main`, in order."""
    values = [binding.value for binding in bindings_of(mod["main"])]
    return [sources_of(value) for value in values if isinstance(value, tvm.ir.Call)]
