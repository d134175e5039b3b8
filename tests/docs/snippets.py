# SPDX-License-Identifier: Apache-2.0
"""The code blocks of README and docs, and how they are run.

A comment on the line before a block says what is special:

    <!-- not run: REASON -->       it cannot run here
    <!-- long -->  <!-- long: REASON -->    it takes long; runs with -m long
    <!-- exit: N -->               its last command ends with this exit code
    <!-- file: NAME -->            it is the content of a file that later blocks use
    <!-- phase: … -->              scripts/docs_site/walk.py writes it

The blocks of a page run in their order in one folder and one Python namespace. A line that is an `arm-ext` command
alone runs in this process, which has loaded TVM; others run in bash.
"""

import contextlib
import io
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markdown_it import MarkdownIt

from arm_ext import cli

ROOT = Path(__file__).parents[2]
PAGES = tuple(
    page
    for page in (
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        ROOT / "examples/README.md",
        *sorted((ROOT / "docs").rglob("*.md")),
    )
)
BOARDS = ("192.168.0.7:9090", "ssh://pi@raspberrypi")
"""The names that the pages give to a board on the reader's desk; a virtual one stands in."""
_MARK = re.compile(r"<!--\s*(not run|long|exit|file|phase)\b(?::\s*(.*?))?\s*-->", re.DOTALL)
_SHELL = re.compile(r"[|&;<>$`*?~]|^[A-Z_]+=")
LANGUAGES = ("bash", "python", "yaml", "text", "c", "cpp", "rust")
_EXECUTED = ("bash", "python")


@dataclass(frozen=True)
class Snippet:
    """A code block.

    Attributes:
        page: The file.
        line: Where it begins, from 1.
        language: Of the fence.
        text: The code.
        mark: What the comment before it says: "", "not run", "long", "exit", "file" or "phase".
        about: What follows in the comment: the reason, the code, the file's name.
    """

    page: Path
    line: int
    language: str
    text: str
    mark: str
    about: str

    @property
    def where(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    @property
    def is_run(self) -> bool:
        return self.language in _EXECUTED and self.mark not in ("not run", "phase")

    @property
    def is_long(self) -> bool:
        return self.mark == "long"


def snippets(page: Path) -> list[Snippet]:
    """Return the code blocks of a page."""
    found, mark = [], ("", "")
    for token in MarkdownIt().enable("table").parse(page.read_text()):
        if token.type == "html_block" and (match := _MARK.search(token.content)):
            mark = (match[1], match[2] or "")
        elif token.type in ("fence", "code_block"):
            assert token.map is not None
            language = token.info.split()[0] if token.info else ""
            found.append(Snippet(page, token.map[0] + 1, language, token.content, *mark))
            mark = ("", "")
        elif token.nesting >= 0:
            mark = ("", "")
    return found


class Runner:
    """Runs a page's blocks in a folder."""

    def __init__(self, folder: Path, board: str) -> None:
        """Takes the folder, which is the working folder, and the address of a board."""
        self.folder, self.board = folder, board
        self.names: dict[str, Any] = {"__name__": "__main__"}

    def run(self, snippet: Snippet) -> None:
        """Run one; AssertionError with what it printed if a command fails."""
        text = snippet.text
        for name in BOARDS:
            text = text.replace(name, self.board)
        if snippet.mark == "file":
            (self.folder / snippet.about).write_text(text)
        elif snippet.language == "python":
            filler = "\n" * snippet.line  # a traceback then names the page's line
            exec(compile(filler + text, str(snippet.page), "exec"), self.names)
        elif snippet.language == "bash":
            codes = [self._command(line, snippet) for line in commands(text)]
            expected = [0] * (len(codes) - 1) + [int(snippet.about) if snippet.mark == "exit" else 0]
            assert codes == expected, f"{snippet.where}: exit codes {codes}, not {expected}"

    def _command(self, line: str, snippet: Snippet) -> int:
        words = shlex.split(line, comments=True)
        said = io.StringIO()
        if words[0] == "arm-ext" and not _SHELL.search(re.sub(r"'[^']*'", "", line)):
            with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
                code = cli.invoke(words[1:])
        else:
            path = f'PATH="{Path(sys.executable).parent}:$PATH"; '
            ended = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", path + line],
                cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
            )  # fmt: skip
            code, _ = ended.returncode, said.write(ended.stdout)
        sys.stdout.write(
            f"{snippet.where}: {line}\n{said.getvalue()}\n"
        )  # pytest shows it where a test fails
        return code


def commands(text: str) -> Iterator[str]:
    """Yield the commands of a shell snippet, without comments; a backslash at the end of a line joins the next."""
    for line in text.replace("\\\n", " ").splitlines():
        if shlex.split(line, comments=True):
            yield line
