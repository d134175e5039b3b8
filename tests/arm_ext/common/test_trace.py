# SPDX-License-Identifier: Apache-2.0
from collections.abc import Sequence
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from arm_ext.common import trace
from arm_ext.common.errors import EnvError, UsageError
from arm_ext.common.trace import ModelCode, Trace, TranslationBlock, kernel_name
from arm_ext.target.toolchain import zig, zig_target

BASE = 0x5501000000
RUNTIME = 0x5502000000

# A wrapper and its body, as TVM emits them.
SOURCE = """
__attribute__((noinline)) static int conv_compute_(int x) { return x * 3 + 1; }
int __tvm_ffi_conv(int x) { return conv_compute_(x) ^ 5; }
int __tvm_ffi_relu(int x) { return x < 0 ? 0 : x; }
"""
MAPS = f"""\
{BASE:x}-{BASE + 0x100000:x} r--p 00000000 fe:00 1    /tmp/session/model.so
{RUNTIME - 0x10000:x}-{RUNTIME:x} r--p 00000000 fe:00 2    /opt/libtvm_runtime.so
{RUNTIME:x}-{RUNTIME + 0x1000:x} r-xp 00010000 fe:00 2    /opt/libtvm_runtime.so
{RUNTIME + 0x10000:x}-{RUNTIME + 0x11000:x} r-xp 00000000 fe:00 3    /lib/libc.so.6
{RUNTIME + 0x20000:x}-{RUNTIME + 0x21000:x} rw-p 00000000 00:00 0
"""


@pytest.fixture(scope="module")
def so(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trace")
    (folder / "model.c").write_text(SOURCE)
    flags = ["-target", zig_target("aarch64-linux-gnu"), "-O1", "-shared", "-fPIC", "-nostdlib"]
    zig(["cc", *flags, folder / "model.c", "-o", folder / "model.so"])
    return folder / "model.so"


def code(so: Path, symbol: str) -> tuple[int, tuple[int, ...]]:
    """Address and instructions of a function of the library."""
    with so.open("rb") as file:
        elf = ELFFile(file)
        entry = elf.get_section_by_name(".symtab").get_symbol_by_name(symbol)[0]
        text = elf.get_section_by_name(".text")
        start = entry["st_value"] - text["sh_addr"]
        data = text.data()[start : start + entry["st_size"]]
    return entry["st_value"], tuple(int.from_bytes(data[i : i + 4], "little") for i in range(0, len(data), 4))


def dump(path: Path, blocks: Sequence[tuple[int, int, Sequence[int]]], total: int | None = None) -> Path:
    lines = [
        f"{vaddr:x} {count} {' '.join(f'{word:08x}' for word in words)}" for vaddr, count, words in blocks
    ]
    if total is None:
        total = sum(count * len(words) for _, count, words in blocks)
    path.write_text("\n".join([*lines, f"#total {total}"]) + "\n")
    return path


def test_blocks_belong_to_kernels_and_libraries(so: Path, tmp_path: Path) -> None:
    wrapper, wrapper_words = code(so, "__tvm_ffi_conv")
    body, body_words = code(so, "conv_compute_")
    relu, relu_words = code(so, "__tvm_ffi_relu")
    blocks = [
        (BASE + wrapper, 1, wrapper_words),
        (BASE + body + 4, 7, body_words[1:]),
        (BASE + relu, 9, relu_words),
        (RUNTIME + 8, 2, [0xD503201F]),
        (RUNTIME + 0x10008, 3, [0xD503201F, 0xD65F03C0]),
        (RUNTIME + 0x20000, 4, [0xD65F03C0]),
        (0x400000, 5, [0xD65F03C0]),
    ]
    found = Trace.parse(dump(tmp_path / "dump", blocks), MAPS, ModelCode.read(so))
    assert found.base == BASE
    assert [(block.symbol, block.image) for block in found.blocks] == [
        ("conv", "model.so"),
        ("conv", "model.so"),
        ("relu", "model.so"),
        ("libtvm_runtime", "libtvm_runtime"),
        ("libc", "libc"),
        ("other", "other"),
        ("other", "other"),
    ]
    assert found.blocks[1] == TranslationBlock(BASE + body + 4, 7, body_words[1:], "model.so", "conv")
    assert found.instructions == sum(count * len(words) for _, count, words in blocks)


def test_a_block_translated_twice_is_one(so: Path, tmp_path: Path) -> None:
    relu, words = code(so, "__tvm_ffi_relu")
    blocks = [(BASE + relu, 31, words), (BASE + relu, 8, words), (BASE + relu, 1, words[:1])]
    found = Trace.parse(dump(tmp_path / "dump", blocks), MAPS, ModelCode.read(so))
    assert [(block.count, len(block.words)) for block in found.blocks] == [(39, len(words)), (1, 1)]


def test_threads_are_counted_apart(so: Path, tmp_path: Path) -> None:
    (conv, conv_words), (relu, relu_words) = (code(so, f"__tvm_ffi_{name}") for name in ("conv", "relu"))
    sections = {
        0: [(BASE + conv, 7, conv_words), (BASE + relu, 2, relu_words)],
        3: [(BASE + conv, 9, conv_words), (RUNTIME + 8, 31, [0xD503201F])],
        4: [(RUNTIME + 8, 1, [0xD503201F])],  # it found no work
    }
    text, total = "", 0
    for thread, blocks in sections.items():
        *lines, last = dump(tmp_path / "dump", blocks).read_text().splitlines(keepends=True)
        text += f"#thread {thread}\n" + "".join(lines)
        total += int(last.split()[1])
    (tmp_path / "dump").write_text(f"{text}#elapsed 93\n#total {total}\n")
    found = Trace.parse(tmp_path / "dump", MAPS, ModelCode.read(so))
    assert found.instructions == total
    assert found.elapsed == 93
    assert [(block.vaddr, block.count) for block in found.blocks] == [
        (BASE + conv, 16),
        (BASE + relu, 2),
        (RUNTIME + 8, 32),
    ]
    assert found.by_thread == {
        "conv": (7 * len(conv_words), 9 * len(conv_words)),
        "relu": (2 * len(relu_words), 0),
    }


def test_code_that_the_file_does_not_hold_is_refused(so: Path, tmp_path: Path) -> None:
    relu, words = code(so, "__tvm_ffi_relu")
    changed = dump(tmp_path / "dump", [(BASE + relu, 1, [words[0] ^ 1, *words[1:]])])
    with pytest.raises(EnvError, match=f"{relu:#x}"):
        Trace.parse(changed, MAPS, ModelCode.read(so))


def test_model_so_must_be_mapped(so: Path, tmp_path: Path) -> None:
    maps = "".join(line for line in MAPS.splitlines(keepends=True) if "model.so" not in line)
    with pytest.raises(EnvError, match=r"model\.so is not among"):
        Trace.parse(dump(tmp_path / "dump", []), maps, ModelCode.read(so))


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "no #total"),
        ("400000 1 d503201f\n", "no #total"),
        ("400000 2 d503201f\n#total 3\n", "hold 2 instructions, its #total says 3"),
        ("400000 2 d503201f\n4000\n#total 2\n", "line 2"),
        ("400000 two d503201f\n#total 2\n", "line 1"),
        ("400000 2 d503201f\n#total\n", "line 2"),
        ("400000 2 d503201f\n#section 0 0 0 0 1:2\n#total 2\n", "names a block that is not there"),
        ("400000 2 d503201f\n#section 0 0 0 0 -1:2\n#total 2\n", "names a block that is not there"),
        ("400000 2 \xff\n#total 2\n", "line 1"),
        ("#thread\n400000 2 d503201f\n#total 2\n", "line 1"),
    ],
)
def test_a_damaged_dump_is_refused(so: Path, tmp_path: Path, text: str, fault: str) -> None:
    (tmp_path / "dump").write_text(text)
    with pytest.raises(EnvError, match=fault):
        Trace.parse(tmp_path / "dump", MAPS, ModelCode.read(so))


def test_a_dump_of_too_many_blocks_is_not_read(
    so: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace, "_MOST_PARTS", 100)
    (tmp_path / "dump").write_text("0 0 0\n" * 101)
    with pytest.raises(EnvError, match="more than 100 blocks"):
        Trace.parse(tmp_path / "dump", MAPS, ModelCode.read(so))


def test_a_dump_that_is_missing_or_none_is_refused(so: Path, tmp_path: Path) -> None:
    with pytest.raises(EnvError, match="no such file"):
        Trace.parse(tmp_path / "dump", MAPS, ModelCode.read(so))
    (tmp_path / "dump").symlink_to("/dev/zero")
    with pytest.raises(EnvError, match="is a symbolic link"):
        Trace.parse(tmp_path / "dump", MAPS, ModelCode.read(so))


@pytest.mark.parametrize("cut", [0, 10, 64, 100, 600])
def test_a_library_whose_tables_are_damaged_is_refused(so: Path, tmp_path: Path, cut: int) -> None:
    content = so.read_bytes()
    (tmp_path / "model.so").write_bytes(content[:cut])
    with pytest.raises(UsageError, match=r"model\.so: "):
        ModelCode.read(tmp_path / "model.so")


@pytest.mark.parametrize("symbol", ["__tvm_ffi_conv", "conv_compute_", "conv"])
def test_kernel_name(symbol: str) -> None:
    assert kernel_name(symbol) == "conv"
