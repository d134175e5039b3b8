# SPDX-License-Identifier: Apache-2.0
"""Where a library's buffers lie, in one region and in several."""

import itertools

import pytest

from arm_ext.clibrary.memory import (
    ARENA,
    BufferAddress,
    Ends,
    Layout,
    MemoryRegion,
    arrange,
    parse_regions,
    places_of,
)
from arm_ext.clibrary.program import Copy, KernelStep, Program, Step, TensorPlace
from arm_ext.common.errors import ModelError, UsageError
from relay_passes.memory.plan_arena import ALIGNMENT


def call(name: str, *places: TensorPlace) -> KernelStep:
    return KernelStep(name, places, (name,))


def buffer(index: int) -> TensorPlace:
    return TensorPlace("buffer", index=index)


# A wide value between narrow ones, of which the first is read three times.
CHAIN = (
    call("first", TensorPlace("input"), buffer(0)),
    call("wide", buffer(0), buffer(1)),
    call("narrow", buffer(1), buffer(0), buffer(2)),
    call("last", buffer(2), buffer(0), TensorPlace("output")),
)
SIZES = (256, 4096, 256)


def laid_out(steps: tuple[Step, ...], sizes: tuple[int, ...], ends: Ends, memory: str = "") -> Layout:
    """A layout in which what is alive at the same time is apart."""
    layout = arrange(Program(steps, sizes, b"", {}), ends, parse_regions(memory) if memory else ARENA)
    lists = {"buffer": layout.buffers, "input": layout.inputs, "output": layout.outputs}
    bytes_of = {"buffer": sizes, "input": ends.inputs, "output": ends.outputs}
    last = len(steps)
    for time in range(-1, last + 1):
        alive = [] if layout.states is None else [(layout.states, ends.states)]
        for memory_, addresses in lists.items():
            for index, address in enumerate(addresses):
                used = [
                    at
                    for at, step in enumerate(steps)
                    if any((place.memory, place.index) == (memory_, index) for place in places_of(step))
                ]
                used += [-1] * (memory_ == "input") + [last] * (memory_ == "output")
                if address is not None and min(used) <= time <= max(used):
                    alive.append((address, bytes_of[memory_][index]))
        for (one, size), (other, other_size) in itertools.combinations(alive, 2):
            is_apart = one.offset + size <= other.offset or other.offset + other_size <= one.offset
            assert one.region != other.region or is_apart, (time, one, other)
        for address, size in alive:
            assert address.offset % ALIGNMENT == 0
            assert address.offset + size <= layout.in_place_bytes[address.region]
    return layout


def test_inputs_and_outputs_take_what_nothing_else_does() -> None:
    layout = laid_out(CHAIN, SIZES, Ends((256,), (256,)))
    assert layout.bytes == layout.in_place_bytes == (256 + 4096 + 256,)


def test_an_arena_grows_only_for_those_who_fill_inputs_in_place() -> None:
    steps = (call("root", TensorPlace("input"), TensorPlace("output")),)
    layout = laid_out(steps, (), Ends((256,), (300,)))
    assert layout.bytes == (ALIGNMENT,)
    assert layout.in_place_bytes == (256 + 5 * ALIGNMENT,)  # so that an array of arenas is aligned


def test_an_input_that_is_an_output_too_is_alive_until_it_is_copied() -> None:
    steps = (*CHAIN, Copy(TensorPlace("input"), TensorPlace("output", index=1), 256))
    laid_out(steps, SIZES, Ends((256, 64), (256, 256)))


def test_what_is_used_most_lies_in_fast_memory() -> None:
    layout = laid_out(CHAIN, SIZES, Ends((256,), (256,)), "fast=512,slow=8K")
    assert layout.buffers == (BufferAddress(0, 0), BufferAddress(1, 0), BufferAddress(0, 256))
    assert layout.bytes == (512, 4096)
    # The first call reads the input where a later one writes.
    assert layout.inputs == (BufferAddress(0, 256),)
    assert layout.outputs == (BufferAddress(1, 0),)


# A small value that is alive all the time, and three wide ones that follow each other.
LONG = (
    call("first", TensorPlace("input"), buffer(0), buffer(1)),
    call("second", buffer(1), buffer(2)),
    call("third", buffer(2), buffer(3)),
    call("last", buffer(3), buffer(0), TensorPlace("output")),
)


def test_what_leaves_most_room_for_others_lies_in_fast_memory() -> None:
    layout = laid_out(LONG, (256, 512, 512, 512), Ends((), ()), "fast=512,slow=8K")
    assert [address.region for address in layout.buffers if address] == [1, 0, 1, 0]
    assert layout.bytes == (512, 768)


def test_what_fast_memory_lacks_is_tried_before_all_others() -> None:
    """Neither the widest first nor the smallest first finds the two that fill it."""
    places = [buffer(index) for index in range(4)]
    steps = (call("first", TensorPlace("input"), *places), call("last", *places, TensorPlace("output")))
    layout = laid_out(steps, (448, 256, 256, 192), Ends((), ()), "fast=512,slow=8K")
    assert [address.region for address in layout.buffers if address] == [1, 0, 0, 1]


def test_values_that_would_not_fit_in_the_order_that_is_best_for_fast_memory_are_placed_in_another() -> None:
    steps = (
        call("first", TensorPlace("input"), buffer(0), buffer(1)),
        call("second", buffer(1), TensorPlace("output")),
        call("third", TensorPlace("input"), buffer(2)),
        call("last", buffer(2), buffer(0), TensorPlace("output", index=1)),
    )
    sizes = (256, 512, 4096)
    wide = laid_out(steps, sizes, Ends((), ()), "fast=512,slow=8K")
    assert wide.bytes == (512, 4096 + 256)
    narrow = laid_out(steps, sizes, Ends((), ()), "fast=512,slow=4160")
    assert narrow.bytes == (256, 4096)


def test_fast_memory_with_room_for_all_takes_all() -> None:
    """Placed by size, where one by one the most used come first and leave a gap that is too small."""
    layout = laid_out(CHAIN, SIZES, Ends((256,), (256,)), "fast=4608,slow=8K")
    assert layout.bytes == (256 + 4096 + 256, ALIGNMENT)


def test_states_need_room_too() -> None:
    with pytest.raises(ModelError, match="4,096 of them for states"):
        arrange(Program(CHAIN, SIZES, b"", {}), Ends((256,), (256,), 4096), parse_regions("fast=8K,slow=64"))


def test_states_are_alive_at_all_times() -> None:
    layout = laid_out(CHAIN, SIZES, Ends((256,), (256,), states=512))
    assert layout.bytes == (512 + 256 + 4096 + 256,)
    # In the last region, where other shapes have theirs.
    assert laid_out(CHAIN, SIZES, Ends((256,), (256,), 100), "fast=1K,slow=64K").states == BufferAddress(1, 0)


def test_where_there_is_no_room_there_is_no_place() -> None:
    layout = laid_out(CHAIN, SIZES, Ends((256,), (8192,)), "fast=512,slow=4K")
    assert layout.outputs == (None,)
    assert layout.inputs != (None,)


def test_too_little_memory_is_told_by_the_widest_layers() -> None:
    with pytest.raises(ModelError) as said:
        arrange(Program(CHAIN, SIZES, b"", {}), Ends((256,), (256,), 128), parse_regions("fast=512,slow=1K"))
    text = str(said.value)
    assert "512 of fast and 1,024 of slow bytes, 128 of them for states" in text
    assert "one region would need 4,736;" in text
    assert text.index("4,736 bytes  narrow") < text.index("4,480 bytes  wide") < text.index("last")


def test_sizes_have_units() -> None:
    assert parse_regions("tcm=64,fast=512K, slow=8M,disk=1G") == (
        MemoryRegion("tcm", 64),
        MemoryRegion("fast", 512 << 10),
        MemoryRegion("slow", 8 << 20),
        MemoryRegion("disk", 1 << 30),
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "'' is not NAME=SIZE"),
        ("512K", "'512K' is not NAME=SIZE"),
        ("fast=512k", "'fast=512k' is not NAME=SIZE"),
        ("fast=1K,,slow=1M", "'' is not NAME=SIZE"),
        ("fast=1K,fast=1M", "'fast' cannot be a region's name"),
        ("Fast=1K", "'Fast' cannot be a region's name"),
        ("int=1K", "'int' cannot be a region's name"),
        ("out=1K", "'out' cannot be a region's name"),
        ("tcm=1K,tcm_bytes=1K", "'tcm_bytes' cannot be a region's name"),
        ("tcm_in_place=1K,tcm=1K", "'tcm' cannot be a region's name"),
        ("input_x=1K", "'input_x' cannot be a region's name"),
        ("memcpy=1K", "'memcpy' cannot be a region's name"),
        ("overlap=1K", "'overlap' cannot be a region's name"),
        ("fast=63", "region fast has fewer than 64 bytes"),
        ("fast=1\u0663", "is not NAME=SIZE"),
        (f"fast={'9' * 5000}", "is not NAME=SIZE"),
    ],
)
def test_what_is_no_list_of_regions_is_told(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        parse_regions(text)
