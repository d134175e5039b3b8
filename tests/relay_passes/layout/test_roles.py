# SPDX-License-Identifier: Apache-2.0
import pytest

from relay_passes.layout.form import Flat, Role
from relay_passes.layout.roles import Relations, blocks, infer_roles
from tests.relay_passes.graphs import tensor

NCHW: tuple[Role, ...] = ("N", "C", "S", "S")


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ((1, 8, 9, 7), (1, 8, 63), [((1,), (1,)), ((2, 3), (2,))]),
        ((1, 8, 9, 7), (1, 504), [((1, 2, 3), (1,))]),
        ((1, 8, 9, 7), (1, 2, 4, 9, 7), [((1,), (1, 2)), ((2,), (3,)), ((3,), (4,))]),
        ((2, 12), (4, 6), [((0, 1), (0, 1))]),
        ((1, 8, 1, 1), (8,), [((1,), (0,))]),
        ((1, 1), (1,), []),
    ],
)
def test_blocks_of_a_reshape(before: tuple[int, ...], after: tuple[int, ...], expected: list[object]):
    assert list(blocks(before, after)) == expected


def facts(var: object) -> list[object]:
    return [((var, axis), role) for axis, role in enumerate(NCHW)]


def test_pairs_go_both_ways():
    x, y, z = (tensor(name, 1, 8, 9, 7) for name in "xyz")
    chain = [Relations().pair(a, b, ((i, i) for i in range(4))) for a, b in ((x, y), (y, z))]
    roles = infer_roles([*chain, Relations(facts=facts(y))])
    assert [roles.role((x, axis)) for axis in range(4)] == list(NCHW)
    assert [roles.role((z, axis)) for axis in range(4)] == list(NCHW)


def test_an_axis_that_is_broadcast_gets_its_role_and_gives_it():
    gate, y = tensor("gate", 1, 8, 1, 1), tensor("y", 1, 8, 9, 7)
    pair = Relations().pair(gate, y, ((i, i) for i in range(4)))
    assert infer_roles([pair, Relations(facts=facts(y))]).role((gate, 2)) == "S"
    assert infer_roles([pair, Relations(facts=facts(gate))]).role((y, 2)) == "S"


def test_axes_of_unlike_roles_merge_to_a_flattened_one():
    x, flat = tensor("x", 1, 8, 9, 7), tensor("flat", 1, 504)
    merge = Relations(merges=[((flat, 1), ((x, 1), (x, 2), (x, 3)))])
    roles = infer_roles([merge, Relations(facts=facts(x))])
    assert roles.role((flat, 1)) == Flat((8, 9, 7), (1, 2, 0))


def test_axes_of_one_role_merge_and_split():
    x, pixels, groups = tensor("x", 1, 8, 9, 7), tensor("pixels", 1, 8, 63), tensor("groups", 1, 2, 4, 9, 7)
    merge = Relations(merges=[((pixels, 2), ((x, 2), (x, 3)))])
    split = Relations(merges=[((x, 1), ((groups, 1), (groups, 2)))])
    roles = infer_roles([merge, split, Relations(facts=facts(x))])
    assert roles.role((pixels, 2)) == "S"
    assert [roles.role((groups, axis)) for axis in (1, 2)] == ["C", "C"]


def test_alike_gives_way_to_what_else_is_known_and_carries_no_flattened_order():
    x, flat, part = tensor("x", 1, 8, 9, 7), tensor("flat", 1, 504), tensor("part", 1, 100)
    alike = Relations(alike=[((x, 1), (x, 2)), ((flat, 1), (part, 1))])
    merge = Relations(merges=[((flat, 1), ((x, 1), (x, 2), (x, 3)))])
    roles = infer_roles([alike, merge, Relations(facts=facts(x))])
    assert roles.role((x, 2)) == "S"
    assert roles.role((part, 1)) is None


def test_what_nothing_is_known_of_has_no_role():
    assert infer_roles([]).role((tensor("x", 3), 0)) is None


def test_among_keeps_what_is_about_known_values():
    x, y = tensor("x", 1, 8), tensor("y", 1, 8)
    relation = Relations([((x, 0), (y, 0))], [((x, 1), (y, 1))], [((x, 1), ((y, 0),))], [((x, 0), "N")])
    assert relation.among({x: 0}) == Relations(facts=[((x, 0), "N")])
    assert relation.among({x: 0, y: 0}) == relation
