# SPDX-License-Identifier: Apache-2.0
"""Loops that TVM's own operators do not have: what looks as if samples were apart, and is not."""

import pytest
from tvm import tirx
from tvm.script import tirx as T  # noqa: N812 (the name that TVMScript has)

from relay_passes.batching.batch_axes import MixedError, Samples, find_batch_axes

COUNT = 3


@T.prim_func(s_tir=True, private=True)
def row_of_all(
    x: T.Buffer((3, 4), "float32"), w: T.Buffer((4,), "float32"), y: T.Buffer((3, 4), "float32")
) -> None:
    for i, j in T.grid(3, 4):
        with T.sblock("add"):
            s, f = T.axis.remap("SS", [i, j])
            y[s, f] = x[s, f] + w[f]


@T.prim_func(s_tir=True, private=True)
def diagonal(
    x: T.Buffer((3, 4), "float32"), w: T.Buffer((4,), "float32"), y: T.Buffer((3, 4), "float32")
) -> None:
    for i, j in T.grid(3, 4):
        with T.sblock("add"):
            s, f, same = T.axis.remap("SSS", [i, j, i])
            y[s, f] = x[s, f] + w[same]


@T.prim_func(s_tir=True, private=True)
def as_often_as_the_first_says(
    x: T.Buffer((3, 4), "int64"), w: T.Buffer((4,), "int64"), y: T.Buffer((3, 4), "int64")
) -> None:
    for i, j in T.grid(3, x[0, 0]):
        with T.sblock("add"):
            s, f = T.axis.remap("SS", [i, j])
            y[s, f] = w[f]


def test_what_is_the_same_for_all_is_read_at_any_place():
    assert find_batch_axes(row_of_all, [Samples(0), None], COUNT) == [Samples(0)]


@pytest.mark.parametrize("func", [diagonal, as_often_as_the_first_says])
def test_samples_that_are_not_apart(func: tirx.PrimFunc):
    with pytest.raises(MixedError):
        find_batch_axes(func, [Samples(0), None], COUNT)
