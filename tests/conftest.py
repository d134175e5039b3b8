# SPDX-License-Identifier: Apache-2.0
"""`--board B` and the `isa` marker: the tests of tests/board run on any board. `--update-golden`: golden texts.

`each_once`: fewer combinations of parameters.
"""

import gc
import inspect
import os
import platform
import signal
from collections import defaultdict
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:  # the process that hands tests to workers needs no TVM
    from arm_ext.board import Board

# A shell has commands in the background ignore these, and so would every process that a test starts and then ends.
for _ignored in (signal.SIGINT, signal.SIGHUP):
    if signal.getsignal(_ignored) is signal.SIG_IGN:
        signal.signal(_ignored, signal.SIG_DFL)

# No progress on stderr, whose lines come every 10 s: how long a test takes is the machine's.
os.environ.setdefault("CI", "1")

_getmodule = inspect.getmodule


def _module_of(thing: object, filename: str | None = None) -> ModuleType | None:
    """Return the module of an object at once for code without a file, such as the interpreter's own import machinery.

    TVM's parser asks for the source of every frame of the call stack, and for these frames Python would compare all
    loaded modules, of which the tests have thousands.
    """
    return None if filename is not None and filename.startswith("<") else _getmodule(thing, filename)


inspect.getmodule = _module_of


def pytest_addoption(parser: pytest.Parser) -> None:
    default = "local" if platform.machine() == "aarch64" else "virtual"
    parser.addoption(
        "--board", default=default, help=f"where the tests of tests/board run (default: {default})"
    )
    parser.addoption("--update-golden", action="store_true", help="write golden texts instead of comparing")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Exempt the objects loaded by test collection from garbage collection, which took a fifth of the test time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(50_000)  # tests allocate much, and hold little of it
        gc.enable()


@pytest.hookimpl(tryfirst=True)  # before `-m` chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave to `-m long` what `each_once` does not need: the n-th test has the n-th value of each parameter."""
    crossed: defaultdict[tuple[object, str], list[pytest.Function]] = defaultdict(list)
    for item in items:
        if isinstance(item, pytest.Function) and item.get_closest_marker("each_once"):
            crossed[item.parent, item.originalname].append(item)
    for tests in crossed.values():
        combinations = [_parameters(test) for test in tests]
        axes = [list(dict.fromkeys(values)) for values in zip(*combinations, strict=True)]
        wanted = {tuple(axis[n % len(axis)] for axis in axes) for n in range(max(map(len, axes)))}
        for test, combination in zip(tests, combinations, strict=True):
            if combination not in wanted:
                test.add_marker("long")


def _parameters(test: pytest.Function) -> tuple[tuple[int, ...], ...]:
    """Return what identifies the values of each of a test's `parametrize`."""
    names = [mark.args[0] for mark in test.iter_markers("parametrize")]
    split = [each.replace(",", " ").split() if isinstance(each, str) else each for each in names]
    return tuple(tuple(id(test.callspec.params[name]) for name in group) for group in split)


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compare a text with the file of this name in the folder golden/ beside the test."""

    def check(name: str, text: str) -> None:
        path = Path(request.path).parent / "golden" / name
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        command = f"pytest '{request.node.nodeid}' --update-golden"
        assert path.is_file(), f"{path} is missing; write it by `{command}`, and read it"
        assert text == path.read_text(), f"{path} differs; if it should, write it by `{command}`"

    return check


@pytest.fixture(scope="session")
def board(request: pytest.FixtureRequest) -> "Iterator[Board]":
    """The board of --board, open for the whole run."""
    from arm_ext.board import open_board

    with open_board(request.config.getoption("--board")) as opened:
        yield opened


@pytest.fixture(autouse=True)
def _isa(request: pytest.FixtureRequest) -> None:
    marker = request.node.get_closest_marker("isa")
    if marker is None:
        return
    on = request.getfixturevalue("board")
    missing = sorted(set(marker.args) - on.info.features)
    if missing:
        pytest.skip(f"board {on.name} lacks {', '.join(missing)}")
