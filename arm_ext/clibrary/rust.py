# SPDX-License-Identifier: Apache-2.0
"""A Rust crate for a C library: the constants, types and functions of its headers as Rust declarations.

The headers are ours, so a few regular expressions read all that they have.
"""

import re
from collections.abc import Iterator, Mapping

from arm_ext.clibrary.text import render
from arm_ext.common.version import __version__

# Reserved names of Rust crates, modules and parameters, except those that C and C++ reserve, too.
_KEYWORDS = """abstract as async await become box crate dyn final fn impl in let loop macro match mod move mut
override priv pub ref self super trait type unsafe unsized use where yield core std test"""
_C_TYPES = {
    "void": "c_void",
    "char": "c_char",
    "unsigned char": "u8",
    "float": "f32",
    "int32_t": "i32",
    "size_t": "usize",
    "uintptr_t": "usize",
}
_ITEMS = re.compile(
    r"/\*(?P<comment>.*?)\*/"
    r"|^\#define (?P<constant>\w+) (?P<value>\(.*?\)(?= |$)|\{[\d, ]+\}|\"\w+\"|[\d.e+-]+f$|\d+u?|[A-Z]\w+$)"
    r"|^typedef int32_t (?P<enum>\w+);\nenum \{(?P<cases>.*?)\}"
    r"|^typedef struct (?P<struct>\w+) \{(?P<fields>.*?)^\}"
    r"|^(?P<result>(?:const )?\w+ \*?)(?P<function>\w+)\((?P<parameters>[^)]*)\);",
    re.DOTALL | re.MULTILINE,
)
_DECLARATION = re.compile(
    r"(?P<const>const )?(?P<type>\w+(?: \w+)??) (?P<pointer>\*?)(?P<name>\w*)(?:\[(?P<length>\w+)\])?"
)
_FILE = "* \\file\n"  # of Doxygen
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_TYPES = ("status", "type", "tensor", "input", "output", "instance")


def crate_files(name: str, title: str, headers: Mapping[str, str], *, has_math: bool) -> dict[str, str]:
    """Return the text of each file of the crate by its path.

    Args:
        name: Name of the library.
        title: A line about it.
        headers: C name of each model → its header.
        has_math: Whether the library calls libm.
    """
    facts = {
        "name": name,
        "crate": _plain(name),
        "version": __version__,
        "title": title,
        "has_math": has_math,
        "modules": list(map(_plain, headers)),
    }
    return {
        "rust/Cargo.toml": render("Cargo.toml", facts),
        "rust/build.rs": render("build.rs", facts),
        "rust/src/lib.rs": render("lib.rs", facts),
        **{f"rust/src/{_plain(model)}.rs": "".join(_module(model, text)) for model, text in headers.items()},
    }


def _module(name: str, header: str) -> Iterator[str]:
    """Yield the declarations of a model."""
    title, *items = _ITEMS.finditer(header)
    yield f"{_documented(title['comment'].removeprefix(_FILE), '//!')}\nuse core::ffi::{{c_char, c_void}};\n"
    functions = ""
    comment, end = "", 0
    for item in items:
        # A comment documents the next declaration only if nothing else, such as a preprocessor line, is between
        # them.
        own = _documented(comment, "///") if comment and not header[end : item.start()].strip() else ""
        is_beside = (
            "\n" not in header[end : item.start()]
        )  # the comment is beside a constant, not before a declaration
        comment, end = "" if is_beside else item["comment"] or "", item.end()
        if item["constant"]:
            constant, value = (item[part].removeprefix(f"{name.upper()}_") for part in ("constant", "value"))
            yield own + _constant(constant, value)
        elif item["enum"] and (kind := item["enum"].removeprefix(f"{name}_")) in _TYPES:
            yield f"\n{own}pub type {kind.title()} = i32;\n"
            yield from _cases(kind.title(), name, item["cases"])
        elif item["struct"] and (kind := item["struct"].removeprefix(f"{name}_")) in _TYPES:
            yield f"\n{own}#[repr(C)]\npub struct {kind.title()} {{\n"
            for field in _COMMENT.sub("", item["fields"]).split(";"):
                yield f"    pub {_declared(name, field.strip())},\n" if field.strip() else ""
            yield "}\n"
        elif item["function"]:
            functions += "\n" + own.replace("///", "    ///") + _function(name, item)
    yield f'\nextern "C" {{{functions}}}\n'


def _constant(name: str, value: str) -> str:
    if value.startswith('"'):
        return f"pub const {name}: &str = {value};\n"
    if value.startswith("{"):
        sizes = value.strip("{}")
        return f"pub const {name}: [usize; {sizes.count(',') + 1}] = [{sizes}];\n"
    if value[0].isalpha() and not value.startswith("SIZE_MAX"):
        return f"pub const {name}: Type = {value};\n"
    if value.endswith("f"):
        return f"pub const {name}: f32 = {value.removesuffix('f')};\n"
    if re.fullmatch(r"\(-?\d+\)", value):  # zero points are in parentheses; counts and sizes are not
        return f"pub const {name}: i32 = {value.strip('()')};\n"
    number = value.removesuffix("u").strip("()")
    return f"pub const {name}: usize = {number.replace('SIZE_MAX', 'usize::MAX', 1)};\n"


def _cases(kind: str, name: str, cases: str) -> Iterator[str]:
    """Yield the constants of an enumeration; their values are consecutive."""
    prefix = f"{name.upper()}_"
    for number, case in enumerate(re.findall(rf"^    {prefix}(\w+)", cases, re.MULTILINE)):
        yield f"pub const {case}: {kind} = {number};\n"


def _function(name: str, item: re.Match[str]) -> str:
    parameters = [
        _declared(name, re.sub(r"\s+", " ", each.strip())) for each in item["parameters"].split(",")
    ]
    result = _declared(name, item["result"]).removeprefix(": ")
    short = item["function"].removeprefix(f"{name}_")
    return (
        f'    #[link_name = "{item["function"]}"]\n'
        f"    pub fn {_plain(short)}({', '.join(parameters)}) -> {result};\n"
    )


def _declared(name: str, text: str) -> str:
    """Return a C declaration, such as `const void *data`, in Rust; the name may be empty."""
    found = _DECLARATION.fullmatch(text)
    assert found is not None, text
    kind = found["type"].removeprefix(f"{name}_")
    own = kind.title() if kind in _TYPES else _C_TYPES.get(found["type"], "c_void")
    if found["pointer"]:
        own = f"*{'const' if found['const'] else 'mut'} {own}"
    if found["length"]:
        own = f"[{own}; {found['length'].removeprefix(f'{name.upper()}_')}]"
    return f"{_plain(found['name']) if found['name'] else ''}: {own}"


def _plain(name: str) -> str:
    """Return a name that Rust does not reserve."""
    return f"{name}_" if name in _KEYWORDS.split() else name


def _documented(comment: str, mark: str) -> str:
    lines = (re.sub(r"^\s*\*? ?", "", line).rstrip() for line in comment.strip().splitlines())
    return "".join(f"{mark} {line}".rstrip() + "\n" for line in lines)
