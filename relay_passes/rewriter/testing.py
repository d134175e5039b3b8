# SPDX-License-Identifier: Apache-2.0
"""Test helper that counts the matches of a pattern in a module."""

from collections import Counter

from tvm import IRModule
from tvm.ir import Call
from tvm.relax.dpl import DFPattern

from relay_passes.ir.sources import bindings_of, relax_functions
from relay_passes.rewriter.engine import find_matches
from relay_passes.rewriter.near_misses import near_misses
from relay_passes.rewriter.pattern_text import either, expected, found


def assert_pattern(mod: IRModule, pattern: DFPattern, count: int = 1) -> None:
    """Assert that `pattern` matches `count` times in the Relax functions of `mod`.

    A match counts once per root, and does not count if it is part of a longer match, such as a convolution without its
    optional bias. Other consumers of inner values are ignored.

    Args:
        mod: Module whose functions are in A-normal form.
        pattern: The root pattern.
        count: Expected number of matches.

    Raises:
        AssertionError: The number is different; the message lists matches, near misses and the module's operators.
    """
    matches = find_matches(mod, pattern)
    if len(matches) == count:
        return
    calls = [
        b.value for _, func in relax_functions(mod) for b in bindings_of(func) if isinstance(b.value, Call)
    ]
    operators = Counter(map(found, calls))
    lines = [
        f"expected {count} of {either(expected(pattern, {}))}, found {len(matches)}",
        *(f"  match: {', '.join(nodes)}" for nodes in matches),
        *(f"  near miss: {miss}" for miss in near_misses(mod, pattern)),
        f"  operators: {', '.join(f'{name} {number}' for name, number in sorted(operators.items()))}",
    ]
    raise AssertionError("\n".join(lines))
