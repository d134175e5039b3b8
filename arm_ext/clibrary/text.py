# SPDX-License-Identifier: Apache-2.0
"""Text of a model in C sources: identifiers, literals, comments, and the templates of a library's files."""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path

import jinja2

_FILES = Path(__file__).parent / "files"
# Parts of a template that are not C code: C comments and strings; Jinja comments, statements and expressions.
_NO_CODE = re.compile(r'/\*.*?\*/|"[^"\n]*"|<#.*?#>|<%.*?%>|@[^@\n]*@', re.DOTALL)
_WORD = re.compile(r"\b[a-z]\w*")
# Bytes that are escaped: unprintable ones, quotes, backslashes, and ? because of trigraphs.
_LITERAL = re.compile(rb"[^ !#-\[\]-~]|\?")
# Reserved words of C and C++, and macros of their standard headers.
_RESERVED_WORDS = """alignas alignof and and_eq asm atomic auto bitand bitor bool break case catch char class compl
concept const consteval constexpr constinit continue decltype default delete do double else enum explicit export
extern false float for friend goto if inline int linux long main mutable namespace new noexcept not not_eq nullptr
operator or or_eq private protected public register reinterpret_cast requires restrict return short signed sizeof
static static_assert static_cast std struct switch template this throw true try typedef typeid typename typeof union
unix unsigned using virtual void volatile wchar_t while xor xor_eq"""
_RESERVED = frozenset(_RESERVED_WORDS.split())

_C_TYPES = {
    "bool": "uint8_t",
    "float16": "uint16_t",
    "float32": "float",
    "float64": "double",
    **{f"{sign}int{bits}": f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}

# Names of system headers, system libraries and Python modules. A file named after a model would shadow them where a
# program is compiled with -I and -L of the library's folders, or where Python imports from one of them.
_SYSTEM_HEADERS = """aio alloca argp argz ar assert byteswap complex cpio crypt ctype dirent dlfcn elf endian envz err
errno error execinfo fcntl features fenv float fmtmsg fnmatch fstab fts ftw getopt glob grp iconv ifaddrs inttypes
iso646 langinfo libgen limits link locale malloc math memory mntent monetary mqueue ndbm netdb nl_types paths poll
printf proc pthread pty pwd regex resolv sched search semaphore setjmp sgtty shadow signal spawn stab stdalign stdarg
stdatomic stdbit stdbool stdckdint stddef stdint stdio stdio_ext stdlib stdnoreturn string strings stropts sysexits
syslog tar termio termios tgmath thread threads time uchar ucontext ulimit unistd utime utmp utmpx values wait wchar
wctype wordexp"""
_SYSTEM_LIBRARIES = (
    "anl c clang_rt crypt cxx dl g gcc gcc_eh gcc_s m mvec nosys pthread resolv rt stdcxx unwind util"
)
_PYTHON_MODULES = """abc array ast base64 bisect builtins calendar code codecs collections concurrent contextlib copy
copyreg csv ctypes dataclasses datetime decimal dis email encodings enum errno fnmatch fractions functools gc
genericpath glob hashlib heapq html http importlib inspect io itertools json keyword linecache locale logging marshal
math multiprocessing ntpath numbers numpy opcode operator os pathlib pickle platform posix posixpath profile queue
random re reprlib secrets select selectors shutil signal site socket sre_compile sre_constants sre_parse ssl stat
statistics string struct subprocess symtable sys sysconfig tempfile test textwrap threading time timeit token tokenize
trace traceback types typing unicodedata unittest urllib uuid warnings weakref xml zipfile zlib"""
# `main` is reserved, because example/main.c runs all models of a library.
_SYSTEM = frozenset(f"main {_SYSTEM_HEADERS} {_SYSTEM_LIBRARIES} {_PYTHON_MODULES}".split())

_LONGEST = 48
"""Most characters of a library's name: the names of files made from it must stay below 255 bytes."""


def identifier(text: str, taken: Iterable[str] = ()) -> str:
    """Return a C and C++ identifier for a text, different from all of `taken`."""
    plain = re.sub(r"[^0-9A-Za-z]+", "_", text)[:_LONGEST].strip("_").lower() or "model"
    if plain[0].isdigit() or plain in _RESERVED:
        plain = f"m_{plain}"
    names, known = plain, set(taken)
    number = 1
    while names in known:
        number += 1
        names = f"{plain}_{number}"
    return names


def file_identifier(text: str) -> str:
    """Return an identifier for a model or library whose files do not shadow system files."""
    name = identifier(text)
    return f"m_{name}" if name in _SYSTEM else name


def identifiers(texts: Iterable[str], taken: Iterable[str] = (), endings: Sequence[str] = ()) -> list[str]:
    """Return an identifier for each text.

    All differ, and none equals another one plus one of the suffixes `endings`.
    """
    names = list(taken)
    count = len(names)
    for text in texts:
        longer = [f"{name}{ending}" for name in names for ending in endings]
        shorter = [name.removesuffix(ending) for name in names for ending in endings]
        names.append(identifier(text, [*names, *longer, *shorter]))
    return names[count:]


def c_type(dtype: str) -> str:
    """Return the C type of an element."""
    return _C_TYPES[dtype]


def literal(text: str) -> str:
    """Return a C string literal in UTF-8."""
    data = _LITERAL.sub(lambda found: b"\\%03o" % found[0][0], text.encode())
    return f'"{data.decode()}"'


def comment(text: str) -> str:
    """Return a text that can be inserted in a C comment."""
    plain = re.sub(r"[^ -~]", "?", text).replace("\\", "/").replace("??", "? ?")
    return plain.replace("*/", "* /").replace("/*", "/ *")


@cache
def words_of_sources() -> frozenset[str]:
    """Return the words in all C templates outside of comments, strings and placeholders."""
    texts = [path.read_text(encoding="utf-8") for path in _FILES.iterdir() if path.suffix in (".c", ".h")]
    return frozenset(word for text in texts for word in _WORD.findall(_NO_CODE.sub(" ", text)))


@cache
def _environment() -> jinja2.Environment:
    # Jinja's default delimiters have a meaning in C, Rust and Python: {{ begins nested initialisers, and is a brace
    # in formats. No language of the templates uses these: @name@, as in CMake's configure_file, <% if … %> and <#
    # comment #>. A line of only statements leaves no line in the file; -%> removes the whitespace after it, and +%>
    # keeps the end of the line.
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_FILES),
        undefined=jinja2.StrictUndefined,
        autoescape=False,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
        variable_start_string="@",
        variable_end_string="@",
        block_start_string="<%",
        block_end_string="%>",
        comment_start_string="<#",
        comment_end_string="#>",
    )
    made.filters |= {"ascii": ascii, "c_type": c_type, "comment": comment, "literal": literal}
    return made


def render(name: str, facts: Mapping[str, object]) -> str:
    """Return a template of the folder `files` rendered with facts about a library."""
    return _environment().get_template(name).render(facts)
