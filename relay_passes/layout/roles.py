# SPDX-License-Identifier: Apache-2.0
"""Inference of axis roles (batch, channel, spatial) from convolutions to all values that they are connected with.

Operators say which axes are one and the same (elementwise operators, concat's other axes), which are merely alike
(the two ends of a `permute_dims`, a slice and what it is cut from), and which a reshape merges or splits; layout
attributes say what an axis is. What they leave open stays without a role.
"""

import math
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from tvm.ir import Expr, Var

from relay_passes.ir.shapes import static_shape
from relay_passes.layout.form import Flat, Role, channels_last

Axis = tuple[Var, int]


@dataclass
class Relations:
    """The relations between the axes of a call's tensors.

    Attributes:
        pairs: Pairs of axes with one role; if they have one size, their elements are in one order, too.
        alike: Pairs of axes with one role, unless other relations say otherwise; their elements may be in different
            orders.
        merges: (axis, the axes that a reshape merged into it, outermost first).
        facts: Roles that the call's layout attribute states.
    """

    pairs: list[tuple[Axis, Axis]] = field(default_factory=list)
    alike: list[tuple[Axis, Axis]] = field(default_factory=list)
    merges: list[tuple[Axis, tuple[Axis, ...]]] = field(default_factory=list)
    facts: list[tuple[Axis, Role]] = field(default_factory=list)

    def pair(self, left: Expr, right: Var, axes: Iterable[tuple[int, int]]) -> "Relations":
        """Relate axes of an operand to axes of a result; operands that are no variables have no roles."""
        if isinstance(left, Var):
            self.pairs += [((left, a), (right, b)) for a, b in axes]
        return self

    def among(self, values: Container[Var]) -> "Relations":
        """Return the relations between values in `values` alone."""
        return Relations(
            [(a, b) for a, b in self.pairs if a[0] in values and b[0] in values],
            [(a, b) for a, b in self.alike if a[0] in values and b[0] in values],
            [m for m in self.merges if m[0][0] in values and m[1][0][0] in values],
            [fact for fact in self.facts if fact[0][0] in values],
        )


def infer_roles(relations: Sequence[Relations]) -> "Roles":
    """Infer the role of each axis from the relations of all calls."""
    roles = Roles()
    alike: list[tuple[Axis, Axis]] = []
    for relation in relations:
        for left, right in relation.pairs:
            if size_of(left) == size_of(right):
                roles.join(left, right)
            else:
                alike.append((left, right))
        alike += relation.alike
    for relation in relations:
        for axis, role in relation.facts:
            roles.say(axis, role)
    merges = [merge for relation in relations for merge in relation.merges]
    # Each iteration propagates in both directions, so that a role crosses even a long graph in one iteration.
    alike += reversed(alike)
    while sum(_merge(roles, *merge) for merge in merges) or sum(_copy(roles, *pair) for pair in alike):
        pass
    return roles


def size_of(axis: Axis) -> int:
    """Return the length of an axis of a value with a static shape."""
    shape = static_shape(axis[0])
    if shape is None:
        raise ValueError(f"{axis[0].name} has no static shape")
    return shape[axis[1]]


def blocks(before: Sequence[int], after: Sequence[int]) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Yield the groups of axes before and after a reshape that hold the same elements, without axes of size 1."""
    left = [(axis, size) for axis, size in enumerate(before) if size != 1]
    right = [(axis, size) for axis, size in enumerate(after) if size != 1]
    while left and right:
        taken: tuple[list[tuple[int, int]], list[tuple[int, int]]] = ([left.pop(0)], [right.pop(0)])
        while (a := _volume(taken[0])) != (b := _volume(taken[1])):
            (taken[0] if a < b else taken[1]).append((left if a < b else right).pop(0))
        yield tuple(axis for axis, _ in taken[0]), tuple(axis for axis, _ in taken[1])


def _volume(axes: Sequence[tuple[int, int]]) -> int:
    return math.prod(size for _, size in axes)


class Roles:
    """Equivalence classes of axes, each with one role."""

    def __init__(self) -> None:
        self._parent: dict[Axis, Axis] = {}
        self._role: dict[Axis, Role] = {}

    def _root(self, axis: Axis) -> Axis:
        root = axis
        while root in self._parent:
            root = self._parent[root]
        while axis != root:  # path compression: the next search takes one step
            self._parent[axis], axis = root, self._parent[axis]
        return root

    def join(self, left: Axis, right: Axis) -> None:
        """Merge the classes of two axes; only before any role is assigned."""
        left, right = self._root(left), self._root(right)
        if left != right:
            self._parent[left] = right

    def role(self, axis: Axis) -> Role | None:
        """Return the role of an axis; None if it has none."""
        return self._role.get(self._root(axis))

    def say(self, axis: Axis, role: Role) -> bool:
        """Assign a role to an axis's class, unless it has one; return whether it was assigned."""
        root = self._root(axis)
        if root in self._role:
            return False
        self._role[root] = role
        return True


def _copy(roles: Roles, left: Axis, right: Axis) -> bool:
    """Give the role of one of two alike axes to the other, if that has none; return whether a role was given."""
    for known, unknown in ((left, right), (right, left)):
        role = roles.role(known)
        if isinstance(role, str) and roles.role(unknown) is None:
            return roles.say(unknown, role)
    return False


def _merge(roles: Roles, whole: Axis, parts: tuple[Axis, ...]) -> bool:
    """Propagate roles from a merged axis to its parts, or from the parts to it."""
    inside, role = [roles.role(part) for part in parts], roles.role(whole)
    if isinstance(role, str):
        agree = all(part in (None, role) for part in inside)
        return agree and sum(roles.say(part, role) for part in parts) > 0
    plain = [part for part in inside if isinstance(part, str)]
    if role is not None or len(plain) < len(parts):
        return False
    if len(set(plain)) == 1:
        return roles.say(whole, plain[0])
    return roles.say(whole, Flat(tuple(map(size_of, parts)), channels_last(plain)))
