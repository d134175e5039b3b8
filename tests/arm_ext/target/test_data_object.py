# SPDX-License-Identifier: Apache-2.0
import json
from pathlib import Path
from typing import Any

import pytest
import tvm
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from arm_ext.target.data_object import write_data_object

SYMBOL = "__tvm_ffi__library_bin"


@pytest.mark.parametrize("triple", ["aarch64-linux-gnu", "x86_64-linux-gnu"])
@pytest.mark.parametrize("size", [1, 7, 8, 9, 31, 4096])
def test_an_object_says_what_that_of_llvm_does(triple: str, size: int, tmp_path: Path):
    data = memoryview((bytes(range(251)) * 17)[:size])
    ours, llvm = tmp_path / "ours.o", tmp_path / "llvm.o"
    with ours.open("wb") as file:
        write_data_object(file, "devc", SYMBOL, [data[:3], data[3:]], triple)
    target = json.dumps({"kind": "llvm", "mtriple": triple})
    tvm.get_global_func("codegen.codegen_blob")(bytes(data), False, target, "").write_to_file(str(llvm))
    assert _content(ours) == _content(llvm)


def _content(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        elf = ELFFile(file)
        data, stack, table = map(elf.get_section_by_name, (".rodata", ".note.GNU-stack", ".symtab"))
        assert isinstance(table, SymbolTableSection)
        symbols = [
            (each.name, each["st_info"], each["st_shndx"] == "SHN_ABS", each["st_value"], each["st_size"])
            for each in table.iter_symbols()
        ]
        head = elf.header
        return {
            "header": (head.e_ident, head.e_type, head.e_machine, head.e_flags),
            "data": data.data(),
            "section": (data["sh_type"], data["sh_flags"], data["sh_addralign"]),
            "stack": (stack["sh_type"], stack["sh_flags"], stack["sh_size"]),
            "symbols": symbols,
            "global": table["sh_info"],
        }
