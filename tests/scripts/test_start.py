# SPDX-License-Identifier: Apache-2.0
"""Programs in scripts/ run when they are started, not when they are imported: their worker processes import them."""

import ast
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[2] / "scripts"
PROGRAMS = [path for path in sorted(SCRIPTS.rglob("*.py")) if path.read_text().startswith("#!")]


def is_guard(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "__name__ == '__main__'"


def calls_a_function(node: ast.stmt) -> bool:
    """Whether a statement is a call such as `main()`; that of a method, such as sys.path.insert, prepares imports."""
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Call)
        and isinstance(node.value.func, ast.Name)
    )


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.name)
def test_a_program_runs_only_when_it_is_started(path: Path) -> None:
    statements = ast.parse(path.read_text()).body
    assert any(map(is_guard, statements)), f"{path.name} has no `if __name__ == '__main__':`"
    assert not any(map(calls_a_function, statements)), f"{path.name} runs where it is imported, too"
