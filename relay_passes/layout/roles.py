# SPDX-License-Identifier: Apache-2.0
"""Inference of axis roles (batch, channel, spatial), from convolutions to all connected values.

Operators define which axes have the same role and order of elements (elementwise operators, concat's other axes), which
axes only have the same role (operand and result of a `permute_dims` or a slice), and which axes a reshape merges or
splits. Layout attributes define the role of an axis. Axes without such information have no role.
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
        pairs: Pairs of axes with the same role and, if their sizes are equal, the same order of elements.
        alike: Pairs of axes with the same role, unless other relations contradict; orders of elements may differ.
        merges: (axis, the axes that a reshape merged into it, outermost first).
        facts: Roles that the layout attribute of the call defines.
    """

    pairs: list[tuple[Axis, Axis]] = field(default_factory=list)
    alike: list[tuple[Axis, Axis]] = field(default_factory=list)
    merges: list[tuple[Axis, tuple[Axis, ...]]] = field(default_factory=list)
    facts: list[tuple[Axis, Role]] = field(default_factory=list)

    def pair(self, left: Expr, right: Var, axes: Iterable[tuple[int, int]]) -> "Relations":
        """Return relations between axes of an operand and a result; none if the operand is no variable."""
        if isinstance(left, Var):
            self.pairs += [((left, a), (right, b)) for a, b in axes]
        return self

    def among(self, values: Container[Var]) -> "Relations":
        """Return only the relations whose values are all in `values`."""
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
    # Each iteration propagates in both directions, so that a role crosses a long graph in one iteration.
    alike += reversed(alike)
    while sum(_merge(roles, *merge) for merge in merges) or sum(_copy(roles, *pair) for pair in alike):
        pass
    return roles


def size_of(axis: Axis) -> int:
    """Return the size of an axis of a value with a static shape."""
    shape = static_shape(axis[0])
    if shape is None:
        raise ValueError(f"{axis[0].name} has no static shape")
    return shape[axis[1]]


def blocks(before: Sequence[int], after: Sequence[int]) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Yield (axes before, axes after) of each group of axes that a reshape merges or splits, without size 1."""
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
    """Equivalence classes of axes, each with at most one role."""

    def __init__(self) -> None:
        self._parent: dict[Axis, Axis] = {}
        self._role: dict[Axis, Role] = {}

    def _root(self, axis: Axis) -> Axis:
        root = axis
        while root in self._parent:
            root = self._parent[root]
        while axis != root:  # path compression, so that the next search takes one step
            self._parent[axis], axis = root, self._parent[axis]
        return root

    def join(self, left: Axis, right: Axis) -> None:
        """Merge the classes of two axes; must be called before any role is assigned."""
        left, right = self._root(left), self._root(right)
        if left != right:
            self._parent[left] = right

    def role(self, axis: Axis) -> Role | None:
        """Return the role of an axis; None if it has none."""
        return self._role.get(self._root(axis))

    def say(self, axis: Axis, role: Role) -> bool:
        """Assign a role to the class of an axis, unless it has a role; return whether it was assigned."""
        root = self._root(axis)
        if root in self._role:
            return False
        self._role[root] = role
        return True


def _copy(roles: Roles, left: Axis, right: Axis) -> bool:
    """Copy the role of one of two axes to the other, if that has none; return whether a role was assigned."""
    for known, unknown in ((left, right), (right, left)):
        role = roles.role(known)
        if isinstance(role, str) and roles.role(unknown) is None:
            return roles.say(unknown, role)
    return False


def _merge(roles: Roles, whole: Axis, parts: tuple[Axis, ...]) -> bool:
    """Propagate roles from a merged axis to its parts, or from the parts to the merged axis."""
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
