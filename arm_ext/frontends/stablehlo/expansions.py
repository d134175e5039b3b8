# SPDX-License-Identifier: Apache-2.0
"""Recognition of functions that were decomposed into arithmetic, as jax.export does with CHLO: erf is 70 operators.

All operators of one decomposition have the same location. Such a group, if it has one argument and one result, is
recognised by its values, since the arithmetic changes with the version of the exporter.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from arm_ext.common.errors import ModelError
from arm_ext.frontends.stablehlo.scalars import Array, evaluate_operators

# Operators of CHLO → functions that compute their values.
_FUNCTIONS = {"chlo.erf": math.erf, "chlo.erfc": math.erfc}
# Minimum number of operators of a decomposed function; smaller groups are not tested.
_SMALLEST = 12
# Below -12 and above 12, erf and erfc are constant in binary32. The steps between test arguments are smaller than
# the ranges in which an expansion uses one formula.
_ARGUMENTS = np.concatenate([np.linspace(-12, 12, 2401), [-1e30, -1e-30, 1e-30, 1e30]]).astype(np.float32)
_VALUES = {name: np.array([f(x) for x in _ARGUMENTS]) for name, f in _FUNCTIONS.items()}
# Tolerance for a few rounding errors of values up to 2.
_TOLERANCE = 1e-6


def known_functions(operators: Sequence[Any]) -> tuple[dict[Any, tuple[str, Any]], set[Any]]:
    """Find decomposed functions in a block: return each result's function and operand, and the operators replaced.

    Returns:
        The operation that gives a function's result → the function's name and its argument; and the other operations
        that the function was taken apart into.
    """
    found: dict[Any, tuple[str, Any]] = {}
    inside: set[Any] = set()
    start = 0
    for end in range(1, len(operators) + 1):
        if end < len(operators) and operators[end].location == operators[start].location:
            continue
        group = operators[start:end]
        start = end
        if len(group) >= _SMALLEST and (function := _function(group)) is not None:
            result, name, argument = function
            found[result] = name, argument
            inside.update(op.operation for op in group if op.operation != result)
    return found, inside


def _function(group: Sequence[Any]) -> tuple[Any, str, Any] | None:
    members = {op.operation for op in group}
    used = dict.fromkeys(value for op in group for value in op.operands)
    arguments = [value for value in used if not _is_inside(value, members)]
    ends = [
        op for op in group if any(use.owner.operation not in members for r in op.results for use in r.uses)
    ]
    if len(arguments) != 1 or len(ends) != 1:
        return None
    try:
        given = evaluate_operators(group, {arguments[0]: _ARGUMENTS})
    except ModelError:
        return None
    values: Array | None = None if given is None else given.get(ends[0].results[0])
    if values is None or values.shape != _ARGUMENTS.shape:
        return None
    for name, wanted in _VALUES.items():
        if np.allclose(values, wanted, rtol=0, atol=_TOLERANCE):
            return ends[0].operation, name, arguments[0]
    return None


def _is_inside(value: Any, members: set[Any]) -> bool:
    """Whether a value is computed by an operator of the group or by a constant operator."""
    owner = value.owner
    if not hasattr(owner, "operation"):  # a block, which owns its arguments
        return False
    return owner.operation in members or owner.operation.name == "stablehlo.constant"
