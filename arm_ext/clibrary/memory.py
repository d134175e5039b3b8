# SPDX-License-Identifier: Apache-2.0
"""Placement of a library's buffers in memory regions, such as fast on-chip memory and slow external memory.

Buffers are intermediate values and workspaces of kernels. They are placed in an order, each in the first region that
has room for it while it is alive; a region that has room for all that is left takes it all. Of several orders that one
is taken in which calls read and write the most bytes in the first region, then in the second, and so on. States begin
the last region. Inputs and outputs get places last, where nothing else is alive: a caller who fills them there needs no
buffers of its own.
"""

import re
import reprlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from arm_ext.clibrary.program import Branch, Copy, KernelStep, Loop, Program, Step, TensorPlace
from arm_ext.clibrary.text import identifiers, words_of_sources
from arm_ext.common.errors import ModelError, UsageError
from arm_ext.package.manifest import WideLayer
from arm_ext.target.profiles import Profile
from relay_passes.memory.plan_arena import ALIGNMENT, Lifetime, aligned, lowest_gap, place
from schedules.tir.emit import OVERWRITES

_SIZE = re.compile(r"(?P<name>[^=]+)=(?P<count>[0-9]{1,15})(?P<unit>[KMG]?)")
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
# Names that C variables of a program and macros of a library's sizes have, in addition to the words of the
# templates.
_NAMES = "context done failed given index length out shared_weights stack thread wanted whole"
_SIZES = ("_bytes", "_in_place")  # suffixes of a region's macros and parameters
_WIDEST = 5  # number of layers that an error names
_INNER_USES = 2  # number of uses of a workspace by its only call: one write, one read
# Maximum number of orders of buffers that are tried, and of comparisons: each buffer is compared with those placed
# before it, so fewer orders are tried if there are many buffers.
_TRIALS, _COMPARISONS = 200, 20_000_000


@dataclass(frozen=True)
class MemoryRegion:
    """A memory region that the caller provides for an instance.

    Attributes:
        name: Name of the region in lower case, as in the C sources.
        limit: Bytes of the region; None if it may be of any size.
        alignment: Alignment in bytes of the region, and of the buffers in it.
    """

    name: str
    limit: int | None = None
    alignment: int = ALIGNMENT


M_ALIGNMENT, M_CACHE_LINE = 16, 32
"""Alignments in bytes of buffers on a Cortex-M: without an NPU, and with one."""

ARENA = (MemoryRegion("arena"),)
"""The one region of a library for which no regions were given."""


@dataclass(frozen=True)
class BufferAddress:
    """Address of a buffer: the index of its region, and its offset there in bytes."""

    region: int
    offset: int


@dataclass(frozen=True)
class Layout:
    """Addresses of all buffers of a program, and of its states, inputs and outputs.

    Attributes:
        regions: The fastest first.
        buffers: Address of each buffer of the program; None of one that no call uses.
        states: Address of the states, of which each has two places; None for a model without states.
        inputs: Address of each input, or None if there is no room for it in the regions.
        outputs: Address of each output, or None if there is no room for it in the regions.
        bytes: Bytes of each region that an instance takes if inputs and outputs are in the caller's buffers.
        in_place_bytes: Bytes of each region that an instance takes if inputs and outputs are in the regions,
            too.
    """

    regions: tuple[MemoryRegion, ...]
    buffers: tuple[BufferAddress | None, ...]
    states: BufferAddress | None
    inputs: tuple[BufferAddress | None, ...]
    outputs: tuple[BufferAddress | None, ...]
    bytes: tuple[int, ...]
    in_place_bytes: tuple[int, ...]


@dataclass(frozen=True)
class Ends:
    """Sizes of a program's inputs, outputs and states.

    Attributes:
        inputs: Bytes of each input that may be in place.
        outputs: Bytes of each output that may be in place.
        states: Bytes of both places of all states.
    """

    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    states: int = 0


def parse_regions(text: str) -> tuple[MemoryRegion, ...]:
    """Return the regions of a text such as "fast=512K,slow=8M".

    Raises:
        UsageError: The text is not of that form.
    """
    regions: list[MemoryRegion] = []
    for part in text.split(","):
        found = _SIZE.fullmatch(part.strip())
        if found is None:
            raise UsageError(
                f"--memory: {reprlib.repr(part)} is not NAME=SIZE; write the fastest first, such as fast=512K,slow=8M"
            )
        name = found["name"].strip()
        names = [region.name for region in regions]
        plain = identifiers([name], [*words_of_sources(), *_NAMES.split(), *names], _SIZES)
        if [name] != plain or name.startswith(("input_", "output_")):
            raise UsageError(
                f"--memory: {reprlib.repr(name)} cannot be a region's name: in lower case it becomes a C variable, "
                "whose name must differ from all other names in the library"
            )
        regions.append(MemoryRegion(name, int(found["count"]) * _UNITS[found["unit"]]))
        if (regions[-1].limit or 0) < ALIGNMENT:
            raise UsageError(f"--memory: region {name} has fewer than {ALIGNMENT} bytes, the minimum")
    return tuple(regions)


def alignment_of(profile: Profile, *, has_npu: bool) -> int:
    """Return the alignment in bytes of the buffers of a library.

    A Cortex-M needs no more than that of a vector register of Helium, and of a base address of an Ethos-U. What an NPU
    shares with a data cache, which an M55 or M85 has, is cleaned and invalidated by lines (TRM 101051: 32 bytes).
    """
    if not profile.core.is_microcontroller:
        return ALIGNMENT
    return M_CACHE_LINE if has_npu else M_ALIGNMENT


def arrange(program: Program, ends: Ends, regions: Sequence[MemoryRegion] = ARENA) -> Layout:
    """Assign addresses in the regions to all buffers of a program.

    Args:
        program: The program, with workspaces as `with_workspaces` adds them.
        ends: Inputs, outputs and states of the program.
        regions: The fastest first.

    Raises:
        ModelError: The regions are too small.
    """
    uses = _BufferUses(program.steps)
    owners = _owners(program, uses)
    items: dict[int, Lifetime] = {}
    for index, owner in owners.items():
        size, (first, last) = program.buffers[index], uses.span("buffer", index)
        joined = items.get(owner, Lifetime(size, first, last))
        items[owner] = Lifetime(max(size, joined.size), min(first, joined.first), max(last, joined.last))
    end = uses.end
    states = Lifetime(ends.states, -1, end) if ends.states else None
    fitting = (_placed(order, items, regions, states) for order in _orders(uses, items, regions))
    found = next((each for each in fitting if each is not None), None)
    if found is None:
        raise ModelError(_too_small(uses, items, regions, ends.states))
    filled, placed = found
    needed = tuple(region.bytes for region in filled)
    inputs = [Lifetime(size, -1, uses.span("input", i)[1]) for i, size in enumerate(ends.inputs)]
    outputs = [Lifetime(size, uses.span("output", i)[0], end) for i, size in enumerate(ends.outputs)]
    return Layout(
        tuple(regions),
        tuple(placed[owners[index]] if index in owners else None for index in range(len(program.buffers))),
        BufferAddress(len(filled) - 1, 0) if ends.states else None,
        tuple(_first(filled, each) for each in inputs),
        tuple(_first(filled, each) for each in outputs),
        needed,
        tuple(region.bytes for region in filled),
    )


def _owners(program: Program, uses: "_BufferUses") -> dict[int, int]:
    """Return, for each buffer that is used, the buffer in whose memory it is: itself, or one that it overwrites.

    A kernel's result takes the memory of an operand that it may overwrite (`OVERWRITES`), if no later call needs that.
    """
    owners = {index: index for index in range(len(program.buffers)) if uses.has("buffer", index)}
    for time, step in uses.calls:
        attributes = program.kernels[step.kernel].attrs if step.kernel in program.kernels else None
        if attributes is None or OVERWRITES not in attributes or step.tasks:
            continue
        *operands, written = (step.arguments[int(place)] for place in attributes[OVERWRITES])
        if not _is_whole(written) or uses.span("buffer", written.index)[0] != time:
            continue
        for read in filter(_is_whole, operands):
            others = [each for each in step.arguments if (each.memory, each.index) == ("buffer", read.index)]
            if uses.span("buffer", read.index)[1] == time and len(others) == 1:
                owners[written.index] = owners[read.index]
                break
    return owners


def _is_whole(place: TensorPlace) -> bool:
    """Whether a tensor begins a buffer."""
    return place.memory == "buffer" and not place.offset


class _Filled:
    """A region, and the buffers that have been placed in it."""

    def __init__(self, region: MemoryRegion) -> None:
        self.bytes = region.alignment  # a C array cannot be empty
        self._limit, self._alignment = region.limit, region.alignment
        self._items: list[tuple[Lifetime, int]] = []

    def put(self, item: Lifetime) -> int | None:
        """Place an item at the lowest offset that is free during its lifetime, and return the offset.

        None if there is no room.
        """
        taken = [(offset, other.size) for other, offset in self._items if other.meets(item)]
        offset = lowest_gap(item.size, taken, self._alignment)
        if self._limit is not None and offset + item.size > self._limit:
            return None
        self._add(item, offset)
        return offset

    def fill(self, items: Mapping[int, Lifetime]) -> dict[int, int]:
        """Place all items together if they fit, else each item that fits; return index → offset."""
        order = sorted(items)
        begin = aligned(self.bytes, self._alignment) if self._items else 0
        offsets, size = place([items[index] for index in order], self._alignment)
        if self._limit is not None and begin + size > self._limit:
            found = {index: self.put(item) for index, item in items.items()}
            return {index: offset for index, offset in found.items() if offset is not None}
        for index, offset in zip(order, offsets, strict=True):
            self._add(items[index], begin + offset)
        return {index: begin + offset for index, offset in zip(order, offsets, strict=True)}

    def _add(self, item: Lifetime, offset: int) -> None:
        self._items.append((item, offset))
        # Rounded up to the alignment, so that the caller can allocate an array of arenas, but not beyond the limit.
        end = aligned(offset + item.size, self._alignment)
        self.bytes = max(self.bytes, end if self._limit is None else min(end, self._limit))


def _placed(
    order: Sequence[int],
    items: Mapping[int, Lifetime],
    regions: Sequence[MemoryRegion],
    states: Lifetime | None,
) -> tuple[list[_Filled], dict[int, BufferAddress]] | None:
    """Place all buffers in an order; return the filled regions and each buffer's address; None if they do not fit."""
    filled = [_Filled(region) for region in regions]
    # States are at offset 0 of the last region, so that functions for several shapes share them at one address.
    has_room = states is None or filled[-1].put(states) is not None
    placed: dict[int, BufferAddress] = {}
    for number, region in enumerate(filled):
        offsets = region.fill({index: items[index] for index in order if index not in placed})
        placed |= {index: BufferAddress(number, offset) for index, offset in offsets.items()}
    return (filled, placed) if has_room and len(placed) == len(items) else None


@dataclass(frozen=True)
class _Trial:
    """An order in which buffers were placed, and the traffic of each region except the last.

    Attributes:
        order: The buffers, in that order.
        traffic: Bytes that calls read and write in each region.
        waiting: Buffers that are not in the first region and could be, those with the most traffic first.
    """

    order: tuple[int, ...]
    traffic: tuple[int, ...]
    waiting: tuple[int, ...]


def _orders(
    uses: "_BufferUses", items: Mapping[int, Lifetime], regions: Sequence[MemoryRegion]
) -> Iterator[tuple[int, ...]]:
    """Yield orders in which to place buffers, the best first.

    Two fixed orders come first. Then each buffer that the first region lacks is moved to the front of the best order so
    far, as long as that improves it.
    """
    counts = {index: uses.count(index) for index in items}
    traffic = {index: counts[index] * item.size for index, item in items.items()}
    most = sorted(items, key=lambda i: (-traffic[i], items[i].first))
    smallest = sorted(items, key=lambda i: (-counts[i], items[i].size, items[i].first))
    if len(regions) == 1:
        yield tuple(smallest)
        return
    trials = [_tried(tuple(order), items, regions, traffic) for order in (most, smallest)]
    best = max(trials, key=lambda trial: trial.traffic)
    budget = iter(range(min(_TRIALS, _COMPARISONS // (1 + len(items)) ** 2)))
    better: _Trial | None = best
    while better is not None:
        best = better
        changed = ((i, *(other for other in best.order if other != i)) for i in best.waiting)
        tried = (_tried(order, items, regions, traffic) for order, _ in zip(changed, budget, strict=False))
        better = next((trial for trial in tried if trial.traffic > best.traffic), None)
    yield best.order
    yield tuple(smallest)  # this order may leave fewer bytes for the last region


def _tried(
    order: tuple[int, ...],
    items: Mapping[int, Lifetime],
    regions: Sequence[MemoryRegion],
    traffic: Mapping[int, int],
) -> _Trial:
    """Place buffers in an order, in all regions except the last."""
    placed: list[set[int]] = []
    left = order
    for region in regions[:-1]:
        filled = _Filled(region)
        placed.append({index for index in left if filled.put(items[index]) is not None})
        left = tuple(index for index in left if index not in placed[-1])
    limit = regions[0].limit or 0
    waiting = (i for i in order if i not in placed[0] and items[i].size <= limit)
    return _Trial(
        order,
        tuple(sum(traffic[index] for index in each) for each in placed),
        tuple(sorted(waiting, key=lambda i: -traffic[i])),
    )


def _first(filled: Sequence[_Filled], item: Lifetime) -> BufferAddress | None:
    for number, region in enumerate(filled):
        offset = region.put(item)
        if offset is not None:
            return BufferAddress(number, offset)
    return None


class _BufferUses:
    """The steps that use each buffer, numbered in sequence: both branches of an `if`, and one iteration of a loop.

    What is used in a loop and outside of it is alive in all rounds.
    """

    def __init__(self, steps: Sequence[Step]) -> None:
        self.end = 0
        self.calls: list[tuple[int, KernelStep]] = []
        self._times: dict[tuple[str, int], list[int]] = {}
        self._loops: list[tuple[int, int]] = []
        self._read(steps)
        for (memory, _), times in self._times.items():
            for first, last in self._loops:  # inner loops precede the loops around them
                is_inner = memory == "buffer" and all(first <= time <= last for time in times)
                if not is_inner and any(first <= time <= last for time in times):
                    times += [first, last]

    def _read(self, steps: Sequence[Step]) -> None:
        for step in steps:
            if isinstance(step, Branch):
                self._use(step.condition)
                self._read((*step.then, *step.otherwise))
            elif isinstance(step, Loop):
                first = self.end
                self._use(step.condition)
                self._read(step.body)
                self._loops.append((first, self.end))
                self._use(step.condition)
            else:
                if isinstance(step, KernelStep):
                    self.calls.append((self.end, step))
                self._use(*places_of(step))

    def _use(self, *places: TensorPlace) -> None:
        for each in places:
            self._times.setdefault((each.memory, each.index), []).append(self.end)
        self.end += 1

    def has(self, memory: str, index: int) -> bool:
        """Whether any call uses the buffer."""
        return (memory, index) in self._times

    def span(self, memory: str, index: int) -> tuple[int, int]:
        """Return the numbers of the first and last call that use a buffer; (end, -1) if no call does."""
        times = self._times.get((memory, index))
        return (min(times), max(times)) if times else (self.end, -1)

    def count(self, buffer: int) -> int:
        """Return the number of reads and writes of a buffer."""
        times = self._times.get(("buffer", buffer), [])
        return max(len(times), _INNER_USES)


def places_of(step: KernelStep | Copy) -> tuple[TensorPlace, ...]:
    """Return the locations that a call or copy reads or writes."""
    return step.arguments if isinstance(step, KernelStep) else (step.source, step.target)


def _too_small(
    uses: "_BufferUses", items: dict[int, Lifetime], regions: Sequence[MemoryRegion], states: int
) -> str:
    """Return an error message with the calls at which the maximum number of bytes is alive."""
    widest = [
        WideLayer(
            kernel=step.kernel,
            sources=list(step.sources),
            live_bytes=states + sum(item.size for item in items.values() if item.first <= time <= item.last),
        )
        for time, step in uses.calls
    ]
    widest.sort(key=lambda layer: -layer.live_bytes)
    rows = dict.fromkeys(layer.describe() for layer in widest)
    alignment = regions[-1].alignment
    whole = aligned(states, alignment) + place(list(items.values()), alignment)[1]
    asked = " and ".join(
        f"{region.limit:,} of {region.name}" for region in regions if region.limit is not None
    )
    held = f", {states:,} of them for states" if states else ""
    return (
        f"the values do not fit in --memory: it has {asked} bytes{held}, and one region would need {whole:,}; alive at "
        "the widest layers:\n" + "\n".join(islice(rows, _WIDEST))
    )
