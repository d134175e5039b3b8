# SPDX-License-Identifier: Apache-2.0
"""Modules of some lengths become one of any length."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import IRModule, relax

from relay_passes.ir.sources import with_source
from relay_passes.lengths.bounded_main import at_length
from relay_passes.lengths.growing_constants import slice_growing
from relay_passes.lengths.merge_lengths import LinearSize, form_of, merge_lengths
from schedules.diagnostic import Diagnostic

LENGTHS = (40, 39, 26)


@pytest.mark.parametrize(
    ("numbers", "form"),
    [
        ((40, 39, 26), LinearSize(1, 0)),
        ((83, 81, 55), LinearSize(2, 3)),
        ((20, 20, 13), LinearSize(1, 1, 2)),
        ((20, 19, 13), LinearSize(1, 0, 2)),
        ((1600, 1521, 676), None),
        ((10, 9, 6), LinearSize(1, 0, 4)),
        ((5, 5, 3), None),  # (n + 1) // 8 and (n + 4) // 8 are both
    ],
)
def test_form_is_the_only_one_that_has_the_numbers(numbers: tuple[int, ...], form: LinearSize | None):
    assert form_of(numbers, LENGTHS) == form


def module(length: int, scale: float = 2.0, constant: np.ndarray | None = None) -> IRModule:
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType([1, length, 6], "float32"))
    held = relax.const(np.float32(scale) if constant is None else constant)
    with builder.function("main", [x]):
        with builder.dataflow():
            scaled = builder.emit(with_source(builder.normalize(relax.op.multiply(x, held)), ["scale"]))
            flat = builder.emit_output(relax.op.reshape(scaled, [length * 2, 3]))
        builder.emit_func_output(flat)
    return builder.get()


def test_united_module_is_each_of_them_for_its_length():
    merged = merge_lengths([module(length) for length in LENGTHS], LENGTHS, "n")
    assert isinstance(merged, IRModule)
    for length in (*LENGTHS, 7):
        assert tvm_ffi.structural_equal(at_length(merged, length), module(length))


def test_what_differs_otherwise_is_refused_by_node():
    modules = [module(length, scale=1 / length) for length in LENGTHS]
    found = merge_lengths(modules, LENGTHS, "n")
    assert isinstance(found, Diagnostic)
    assert found == Diagnostic.of("a constant differs with the length", nodes=("scale",))


def test_constants_that_grow_become_a_beginning():
    whole = np.arange(40 * 6, dtype=np.float32).reshape(40, 6)
    modules = {length: module(length, constant=whole[:length]) for length in LENGTHS}
    assert isinstance(merge_lengths(list(modules.values()), LENGTHS, "n"), Diagnostic)
    merged = merge_lengths(list(slice_growing(modules).values()), LENGTHS, "n")
    assert isinstance(merged, IRModule)
    assert "strided_slice" in merged.script()


def adding(number: Any, length: int) -> IRModule:
    builder = relax.BlockBuilder()
    held = np.asarray(number)
    x = relax.Var("x", relax.TensorType([length, 3], str(held.dtype)))
    with builder.function("main", [x]):
        with builder.dataflow():
            out = builder.emit_output(relax.op.add(x, relax.const(held, str(held.dtype))))
        builder.emit_func_output(out)
    return builder.get()


@pytest.mark.parametrize("number", [lambda n: n, lambda n: [[n, 7, 3 * n - 2]], lambda n: np.int32([n * 6])])
def test_integers_that_follow_from_the_length_are_computed(number: Callable[[int], Any]):
    modules = {length: adding(number(length), length) for length in LENGTHS}
    assert isinstance(merge_lengths(list(modules.values()), LENGTHS, "n"), Diagnostic)
    merged = merge_lengths(list(slice_growing(modules).values()), LENGTHS, "n")
    assert isinstance(merged, IRModule)
    for length in (*LENGTHS, 7):
        machine = relax.VirtualMachine(tvm.compile(at_length(merged, length), "llvm"), tvm.cpu())
        held = np.asarray(number(length))
        x = np.arange(length * 3, dtype=held.dtype).reshape(length, 3)
        assert np.array_equal(machine["main"](tvm.runtime.tensor(x)).numpy(), x + held)


def test_integers_that_do_not_follow_from_the_length_stay():
    modules = {length: adding(length * length, length) for length in LENGTHS}
    assert isinstance(merge_lengths(list(slice_growing(modules).values()), LENGTHS, "n"), Diagnostic)


def test_constants_that_only_differ_stay():
    modules = {
        length: module(length, constant=np.full((length, 6), length, np.float32)) for length in LENGTHS
    }
    assert isinstance(merge_lengths(list(slice_growing(modules).values()), LENGTHS, "n"), Diagnostic)


def sliced(length: int) -> IRModule:
    """The first 39 of a length, or all where there are fewer."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType([length], "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            part = relax.op.strided_slice(x, [0], [0], [min(length, 39)])
            out = builder.emit_output(with_source(builder.normalize(part), ["first"]))
        builder.emit_func_output(out)
    return builder.get()


def test_a_size_without_a_form_is_told_with_its_node():
    found = merge_lengths([sliced(length) for length in LENGTHS], LENGTHS, "n")
    assert isinstance(found, Diagnostic)
    assert found.nodes == ("first",)
    assert found.reason == "a size of its result does not follow from the length by one form"
