# SPDX-License-Identifier: Apache-2.0
"""The rooms of the house: which package may import which, as data, and no import circles.

An import counts wherever it stands: at the top of a module, in a function, or for type checking alone.
"""

import ast
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

# Lowest first: a room imports rooms before it alone. Rooms in one entry do not import each other.
LAYERS = {
    "arm_ext": (
        ("common",),
        ("target",),
        ("native",),
        ("board",),
        ("frontends",),
        ("measure",),
        ("package",),
        ("report",),
        ("quantization",),
        ("pipeline",),
        ("clibrary", "llm", "shapes"),
        ("ethosu",),
        ("tune",),
        ("api",),
        ("cli",),
        ("__main__",),
    ),
    "arm_ext.ethosu": (
        ("options", "payload"),
        ("tosa", "model"),
        ("ops", "vela"),
        ("partition",),
        ("export",),
    ),
    "schedules": (
        ("diagnostic",),
        ("cores", "tir", "composites"),
        ("numerics",),
        ("intrinsics",),
        ("kernels",),
        ("generic", "select"),
        ("lowering",),
    ),
    "relay_passes": (
        ("ir",),
        ("rewriter", "layout", "memory", "bounds"),
        ("rules", "fusion"),
        ("canonicalize", "precision", "integerize"),
        ("programs", "batching", "channels"),
        ("lengths",),
    ),
}
# Packages, and what each may import of the others. Rewrites answer "why not" with the record that kernels answer with.
PACKAGES = {
    "relay_passes": ("schedules.diagnostic",),
    "schedules": (),
    "arm_ext": ("relay_passes", "schedules"),
}


def module_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(path): path for package in PACKAGES for path in (ROOT / package).rglob("*.py")}


def imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in MODULES else node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


@cache
def imports() -> dict[str, set[str]]:
    """Module → the modules of ours that it imports."""
    return {module: {name for name in imported(path) if name in MODULES} for module, path in MODULES.items()}


@pytest.mark.parametrize("package", PACKAGES)
def test_packages_import_what_they_may(package: str):
    allowed = {package, *PACKAGES[package]}
    wrong = [
        f"{module} imports {name}"
        for module, names in imports().items()
        if module.split(".")[0] == package
        for name in names
        if not {name, name.split(".")[0]} & allowed
    ]
    assert not wrong


@pytest.mark.parametrize("package", LAYERS)
def test_rooms_import_downwards(package: str):
    height = {room: level for level, rooms in enumerate(LAYERS[package]) for room in rooms}
    folder, depth = ROOT.joinpath(*package.split(".")), package.count(".") + 1
    files = {path.stem for path in folder.glob("*") if path.suffix == ".py" or path.is_dir()}
    assert files - {"__init__", "__pycache__", "py"} == set(height), "LAYERS names every room"
    wrong = [
        f"{module} imports {name}"
        for module, names in imports().items()
        if module.startswith(f"{package}.")
        for name in names
        if name.startswith(f"{package}.")
        and (here := module.split(".")[depth]) != (there := name.split(".")[depth])
        and height[there] >= height[here]
    ]
    assert not wrong


@pytest.mark.parametrize("package", PACKAGES)
def test_no_import_circles(package: str):
    inside = {
        module: names - {module} for module, names in imports().items() if module.split(".")[0] == package
    }
    try:
        TopologicalSorter(inside).prepare()
    except CycleError as circle:
        pytest.fail(" → ".join(reversed(circle.args[1])))
