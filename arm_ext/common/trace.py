# SPDX-License-Identifier: Apache-2.0
"""The blocks that one inference executes on a virtual board, each with its kernel or library."""

import io
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from arm_ext.common.errors import EnvError, UsageError
from arm_ext.common.regular_file import UnreadableError, open_regular, read_regular

MODEL_IMAGE = "model.so"
UNKNOWN_IMAGE = "other"
UNNAMED_SYMBOL = "(unnamed)"
# TVM wraps the body of PrimFunc `f` (`f_compute_`) in a function that unpacks its arguments (`__tvm_ffi_f`).
_WRAPPER_PREFIX = "__tvm_ffi_"
_BODY_SUFFIX = "_compute_"
# Limits of a dump, far above usual sizes: its bytes, and its lines and blocks of sections. A thousand kernel calls
# take some megabytes and a hundred thousand blocks. Each line or block takes some hundred bytes of memory.
_MOST_BYTES, _MOST_PARTS = 1 << 28, 1 << 23
# Exceptions that pyelftools raises for a file whose tables are damaged.
_ELF_DAMAGE = (
    ELFError,
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    MemoryError,
    OSError,
    StopIteration,
    TypeError,
    ValueError,
)
# Prefix of TVM's names for the machine code of Relax functions (VMTIRCodeGen).
_CALLER_PREFIX = "__vmtir__"
_INSTRUCTION_BYTES = 4


@dataclass(frozen=True)
class TranslationBlock:
    """Instructions that the emulator translated as one unit: entered at the top, left at the end.

    Attributes:
        vaddr: Guest address of the first instruction.
        count: How often the block was executed.
        words: The A64 instructions.
        image: "model.so", or the library's name without version ("libtvm_runtime", "libc"), or "other".
        symbol: Inside model.so the kernel; elsewhere the image's name.
    """

    vaddr: int
    count: int
    words: tuple[int, ...]
    image: str
    symbol: str

    @property
    def instructions(self) -> int:
        """Dynamic instructions of all executions of this block."""
        return self.count * len(self.words)


@dataclass(frozen=True)
class TraceSection:
    """A kernel call, or the execution of the program between two calls.

    Attributes:
        symbol: The kernel; "" is the program around, with what the runtime does for it.
        blocks: Blocks of code, with their numbers of executions in this section alone.
        bytes: Bytes that its loads and stores moved; 0 on a board without a cache model, as for the next two.
        l1_misses: Cache lines that L1 had to fetch.
        l2_misses: Cache lines among these that L2 had to fetch.
    """

    symbol: str
    blocks: tuple[TranslationBlock, ...]
    bytes: int
    l1_misses: int
    l2_misses: int


@dataclass(frozen=True)
class CodeRange:
    """Code of model.so whose execution begins a section: a kernel's entry, or a function that calls kernels.

    Attributes:
        begin: Guest address of its first byte.
        end: Guest address of the first byte after it.
        symbol: The kernel; "" for a function that calls kernels.
    """

    begin: int
    end: int
    symbol: str


@dataclass(frozen=True)
class Trace:
    """All blocks that one inference executes.

    Attributes:
        blocks: Blocks in the dump's order.
        base: Guest address at which model.so was loaded.
        by_thread: Instructions of each kernel of model.so on each of the threads that ran any of its code.
        misses: Lines that L1 and L2 had to fetch, of all code; None where the board has no caches.
        sections: Sections in order, where calls were counted apart; together they are `blocks`.
        elapsed: Instructions from the inference's begin to its end on the thread that called it, where threads were
            counted apart: all code, and what it ran while it waited for others. The threads keep step.
    """

    blocks: tuple[TranslationBlock, ...]
    base: int
    by_thread: dict[str, tuple[int, ...]]
    misses: tuple[int, int] | None = None
    sections: tuple[TraceSection, ...] = ()
    elapsed: int | None = None

    @property
    def instructions(self) -> int:
        """Dynamic instructions of the inference."""
        return sum(block.instructions for block in self.blocks)

    @classmethod
    def parse(cls, dump: Path, maps: str, code: "ModelCode", *, complete: bool = True) -> "Trace":
        """Parse the plugin's dump, and attribute each block to its kernel or library.

        Args:
            dump: Lines `vaddr_hex count word word …`, those of each thread behind a line `#thread INDEX` if threads
                were counted apart; those of sections, if calls were; `#misses L1 L2` if it has caches, `#elapsed N`
                if threads were counted apart, then `#total N`, N being the dynamic instructions.
            maps: Text of the guest's /proc/self/maps while model.so was loaded.
            code: The code of the model.so that ran.
            complete: Whether the dump must have an end; without, the trace is of the lines that there are.

        Raises:
            EnvError: The dump is damaged, or model.so is not among the guest's mappings; or the dump shows other
                instructions than `code` holds at that place.
        """
        images = Images(maps)
        model = _ModelImage(code, images)
        found = TraceDump.read(dump, complete=complete)
        # The emulator may translate a block twice; its executions are then in two lines.
        counts: dict[tuple[int, tuple[int, ...]], Counter[int]] = defaultdict(Counter)
        for line in found.blocks:
            counts[line.vaddr, line.words][line.thread] += line.count
        blocks = []
        kernels: dict[str, Counter[int]] = defaultdict(Counter)
        for (vaddr, words), by_thread in counts.items():
            image = images.at(vaddr)
            if image == MODEL_IMAGE:
                model.check(vaddr, words)
                symbol = model.kernel_at(vaddr)
                for thread, count in by_thread.items():
                    kernels[symbol][thread] += count * len(words)
            else:
                symbol = image
            blocks.append(TranslationBlock(vaddr, by_thread.total(), words, image, symbol))
        threads = sorted({thread for of in kernels.values() for thread in of})
        return cls(
            tuple(blocks),
            model.base,
            {symbol: tuple(of[thread] for thread in threads) for symbol, of in kernels.items()},
            found.misses,
            tuple(_sections(found, dict(zip(counts, blocks, strict=True)), model.ranges())),
            found.elapsed,
        )


def code_ranges(maps: str, code: "ModelCode") -> list[CodeRange]:
    """Return the guest's code ranges to watch, so that each kernel call becomes a section.

    Args:
        maps: Text of the guest's /proc/self/maps while model.so is loaded.
        code: The code of model.so.

    Raises:
        EnvError: model.so is not among the guest's mappings.
    """
    return _ModelImage(code, Images(maps)).ranges()


def kernel_name(symbol: str) -> str:
    """Return the PrimFunc's name for an ELF symbol of model.so; a kernel's wrapper and body have the same name."""
    return symbol.removeprefix(_WRAPPER_PREFIX).removesuffix(_BODY_SUFFIX)


@dataclass(frozen=True)
class BlockLine:
    """A line of a dump: a block as the emulator translated it, and its number of executions on a thread."""

    vaddr: int
    count: int
    words: tuple[int, ...]
    thread: int = 0


@dataclass(frozen=True)
class _SectionLine:
    """A line of a dump: a section, with the executions of each block by the block's index in the dump."""

    begin: int
    bytes: int
    l1_misses: int
    l2_misses: int
    counts: Mapping[int, int]


@dataclass(frozen=True)
class TraceDump:
    """The file that the counting plugin writes.

    Attributes:
        blocks: Blocks that ran.
        sections: Sections in order, where calls were counted apart.
        misses: Lines that L1 and L2 had to fetch; None on a board without caches, or without the dump's end.
        elapsed: As of a `Trace`.
    """

    blocks: Sequence[BlockLine]
    sections: Sequence[_SectionLine]
    misses: tuple[int, int] | None
    elapsed: int | None = None

    @classmethod
    def read(cls, file: Path, *, complete: bool = True) -> "TraceDump":
        """Read a dump.

        Args:
            file: Path of the dump.
            complete: Whether it must have an end; without, what stands in whole lines is read, and what was counted
                before the first section ended is not there.

        Raises:
            EnvError: The dump is damaged.
        """
        blocks: list[BlockLine] = []
        sections: list[_SectionLine] = []
        misses = total = elapsed = None
        thread = 0
        for number, line in enumerate(_lines(file, complete=complete), 1):
            kind, *rest = line.split() or [""]
            try:
                if kind == "#total":
                    total = int(rest[0])
                elif kind == "#thread":
                    thread = int(rest[0])
                elif kind == "#elapsed":
                    elapsed = int(rest[0])
                elif kind == "#misses":
                    misses = int(rest[0]), int(rest[1])
                elif kind == "#section":
                    begin, moved, l1_misses, l2_misses, *runs = rest
                    counts = {int(index): int(count) for index, count in (run.split(":") for run in runs)}
                    sections.append(
                        _SectionLine(int(begin, 16), int(moved), int(l1_misses), int(l2_misses), counts)
                    )
                else:
                    words = tuple(int(word, 16) for word in rest[1:])
                    blocks.append(BlockLine(int(kind, 16), int(rest[0]), words, thread))
            except (ValueError, IndexError):
                raise _damaged(file, f"line {number} is not `vaddr count word …`") from None
        if any(not 0 <= index < len(blocks) for section in sections for index in section.counts):
            raise _damaged(file, "a section names a block that is not there")
        if sections:
            counted: Counter[int] = Counter()
            for section in sections:
                counted.update(section.counts)
            blocks = [replace(block, count=counted[index]) for index, block in enumerate(blocks)]
        seen = sum(block.count * len(block.words) for block in blocks)
        if complete and total is None:
            raise _damaged(file, "it has no #total line")
        if complete and seen != total:
            raise _damaged(file, f"its blocks hold {seen} instructions, its #total says {total}")
        return cls(blocks, sections, misses, elapsed)


def _lines(file: Path, *, complete: bool) -> Iterator[str]:
    """Yield the lines of a dump; the last line may be truncated unless the dump must be complete.

    The code on the board can write whatever it likes to the file, and can put something else in its place.
    """
    try:
        data = read_regular(file, most=_MOST_BYTES, follow=False)
    except UnreadableError as error:
        raise EnvError(
            f"the instruction dump {error}. The program on the board may have changed it"
        ) from error
    if data.count(b"\n") + data.count(b":") > _MOST_PARTS:
        raise _damaged(file, f"it has more than {_MOST_PARTS:,} blocks and executions of blocks")
    for line in io.BytesIO(data):
        if complete or line.endswith(b"\n"):
            yield line.decode("ascii", errors="replace")


def _sections(
    dump: TraceDump,
    blocks: Mapping[tuple[int, tuple[int, ...]], TranslationBlock],
    ranges: Sequence[CodeRange],
) -> Iterator[TraceSection]:
    symbols = {each.begin: each.symbol for each in ranges}
    for section in dump.sections:
        counts: Counter[TranslationBlock] = Counter()
        for index, count in section.counts.items():
            line = dump.blocks[index]
            counts[blocks[line.vaddr, line.words]] += count
        yield TraceSection(
            symbols.get(section.begin, ""),
            tuple(replace(block, count=count) for block, count in counts.items()),
            section.bytes,
            section.l1_misses,
            section.l2_misses,
        )


def _damaged(dump: Path, what: str) -> EnvError:
    return EnvError(
        f"the instruction dump {dump} is damaged: {what}. Was the board stopped? Run the count again."
    )


class Images:
    """The files mapped into the guest's address space, from the text of /proc/self/maps."""

    def __init__(self, maps: str) -> None:
        entries = []
        for line in maps.splitlines():
            # address perms offset dev inode path; anonymous memory has no path
            fields = line.split(maxsplit=5)
            if len(fields) == 6 and fields[5].startswith("/"):
                try:
                    start, end = (int(bound, 16) for bound in fields[0].split("-"))
                    entries.append((start, end, int(fields[2], 16), Path(fields[5].strip()).name))
                except ValueError:
                    raise EnvError("the board's session does not tell what it has mapped") from None
        self._entries = sorted(entries)
        self._starts = [entry[0] for entry in self._entries]

    def at(self, vaddr: int) -> str:
        """Return the name of the file that is mapped at a guest address."""
        index = bisect_right(self._starts, vaddr) - 1
        if index < 0 or vaddr >= self._entries[index][1]:
            return UNKNOWN_IMAGE
        name = self._entries[index][3]
        return name if name == MODEL_IMAGE else name.partition(".so")[0]

    def first_byte(self, name: str) -> int | None:
        """Return the address at which byte 0 of the file `name` is mapped; None if it is not mapped."""
        return next((start for start, _, offset, file in self._entries if file == name and offset == 0), None)


@dataclass(frozen=True)
class ModelCode:
    """Machine code and function symbols of a model.so, to map traced addresses to functions.

    Attributes:
        first: Address of the file's first byte.
        code: Address and bytes of each segment that is executed.
        symbols: (address, end of its section, name) of all functions, sorted.
    """

    first: int
    code: tuple[tuple[int, bytes], ...]
    symbols: tuple[tuple[int, int, str], ...]

    @classmethod
    def read(cls, so: Path) -> "ModelCode":
        """Read the code of a file.

        Raises:
            UsageError: The file is no shared library, or its tables are damaged.
        """
        try:
            with open_regular(so) as file:
                elf = ELFFile(file)
                segments = [segment for segment in elf.iter_segments() if segment["p_type"] == "PT_LOAD"]
                first = next(segment for segment in segments if segment["p_offset"] == 0)
                executed = [segment for segment in segments if segment["p_flags"] & 1]  # PF_X
                if sum(segment["p_filesz"] for segment in executed) > file.seek(0, io.SEEK_END):
                    raise ELFError("its segments are larger than the file")
                code = tuple((segment["p_vaddr"], segment.data()) for segment in executed)
                return cls(first["p_vaddr"], code, tuple(_function_symbols(elf)))
        except UnreadableError as error:
            raise UsageError(str(error)) from error
        except _ELF_DAMAGE as error:
            raise UsageError(f"{so}: its tables of code and symbols cannot be read ({error})") from error


class _ModelImage:
    """The model.so as it is loaded in the guest: its base address, kernels and code."""

    def __init__(self, code: ModelCode, images: Images) -> None:
        start = images.first_byte(MODEL_IMAGE)
        if start is None:
            raise EnvError(
                f"{MODEL_IMAGE} is not among the files that the board's session has mapped; load the package "
                "and count in one session"
            )
        self.base = start - code.first
        self._code, self._symbols = code.code, code.symbols
        self._starts = [symbol[0] for symbol in self._symbols]

    def ranges(self) -> list[CodeRange]:
        """Return the entries of kernels, and the ranges of functions that call kernels."""
        found = []
        for index, (start, section_end, name) in enumerate(self._symbols):
            begin = start + self.base
            if kernel_name(name).startswith(_CALLER_PREFIX):
                later = (at for at in self._starts[index:] if at > start)
                found.append(CodeRange(begin, min(next(later, section_end), section_end) + self.base, ""))
            elif name.startswith(_WRAPPER_PREFIX):
                found.append(CodeRange(begin, begin + _INSTRUCTION_BYTES, kernel_name(name)))
        return found

    def kernel_at(self, vaddr: int) -> str:
        address = vaddr - self.base
        index = bisect_right(self._starts, address) - 1
        if index < 0:
            return UNNAMED_SYMBOL
        _, section_end, name = self._symbols[index]
        # The function that TVM generates from a parallel loop's body has no symbol; LLVM places it behind its
        # kernel.
        return kernel_name(name) if address < section_end else UNNAMED_SYMBOL

    def check(self, vaddr: int, words: tuple[int, ...]) -> None:
        address = vaddr - self.base
        expected = b"".join(word.to_bytes(4, "little") for word in words)
        for start, data in self._code:
            if data[address - start : address - start + len(expected)] == expected and address >= start:
                return
        raise EnvError(
            f"the board ran code at {address:#x} of {MODEL_IMAGE} that is not in the file: the code was changed, or "
            "changes itself while it runs"
        )


def _function_symbols(elf: ELFFile) -> list[tuple[int, int, str]]:
    """Return (address, end of its section, name) of all functions, sorted.

    They are those of .symtab or, if there is none, of .dynsym.
    """
    table = elf.get_section_by_name(".symtab") or elf.get_section_by_name(".dynsym")
    if not isinstance(table, SymbolTableSection):
        return []
    ends = {
        index: section["sh_addr"] + section["sh_size"] for index, section in enumerate(elf.iter_sections())
    }
    return sorted(
        (symbol["st_value"], ends[symbol["st_shndx"]], symbol.name)
        for symbol in table.iter_symbols()
        if symbol["st_info"]["type"] == "STT_FUNC" and symbol["st_shndx"] in ends
    )
