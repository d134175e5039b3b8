# SPDX-License-Identifier: Apache-2.0
"""Draw docs/figures: the pipeline, from the list of phases, and the imports between the folders of each package.

python scripts/docs_site/figures.py
"""

import ast
from collections.abc import Iterable, Mapping
from functools import cache
from graphlib import TopologicalSorter
from html import escape
from pathlib import Path

from arm_ext.pipeline.phases import PHASES

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs/figures"
PACKAGES = ("arm_ext", "relay_passes", "schedules")

# What each box of the pipeline says below its name; a phase without a note fails the drawing.
NOTES = {
    "import": "ONNX, PyTorch, TFLite, StableHLO",
    "canonicalize": "fold constants, recognise operators",
    "layout": "channels last",
    "integerize": "QDQ becomes integers",
    "partition": "regions for an Ethos-U",
    "precision": "fp16 or bf16 products",
    "fuse": "operators become composites",
    "lower": "a TensorIR kernel each",
    "plan": "one arena of memory",
    "link": "one aarch64 model.so",
    "self-test": "expected outputs",
    "package": "a folder",
}
COLUMNS, BOX_WIDTH, BOX_HEIGHT, GAP, MARGIN = 4, 230, 62, 36, 16
STYLE = (
    "text{font-family:sans-serif;text-anchor:middle;fill:#1a1a2e}.name{font-size:16px;font-weight:bold}"
    ".note{font-size:12px}rect{fill:#e8ecf8;stroke:#3f51b5}path{fill:none;stroke:#3f51b5;stroke-width:1.5}"
    ".page{fill:#fff;stroke:none}.edge{stroke-width:1;opacity:.55}"
)
HEAD = '<marker id="head" markerWidth="8" markerHeight="8" refX="7" refY="4" orient="auto">'
ARROW = f'<defs>{HEAD}<path d="M0,0 L8,4 L0,8 z" style="fill:#3f51b5"/></marker></defs>'


def pipeline() -> str:
    """Return the figure of the phases in their order, row by row."""
    names = ("import", *(phase.name for phase in PHASES), "link", "self-test", "package")
    boxes, arrows = [], []
    for number, name in enumerate(names):
        x, y = _corner(number)
        boxes.append(_box(x, y, BOX_WIDTH, name, NOTES[name]))
        if number + 1 < len(names):
            arrows.append(_step(x, y, *_corner(number + 1)))
    rows = -(-len(names) // COLUMNS)
    return _svg(
        2 * MARGIN + COLUMNS * BOX_WIDTH + (COLUMNS - 1) * GAP,
        2 * MARGIN + rows * BOX_HEIGHT + (rows - 1) * GAP,
        "How a model becomes a package",
        [*arrows, *boxes],
    )


def imports(package: str) -> str:
    """Return the figure of a package's folders in layers: each imports only from layers below it.

    An import that follows from others is left out.

    An import that another path implies is left out.
    """
    uses = room_imports(package)
    floor: dict[str, int] = {}
    for room in TopologicalSorter(uses).static_order():
        floor[room] = max((floor[used] + 1 for used in uses[room]), default=0)
    floors = [sorted(r for r, level in floor.items() if level == k) for k in range(max(floor.values()) + 1)]
    width, height = 132, 30
    total = max(map(len, floors)) * (width + GAP)
    place: dict[str, tuple[float, float]] = {}
    for level, rooms in enumerate(reversed(floors)):
        left = (total - len(rooms) * (width + GAP) + GAP) / 2 + MARGIN
        place |= {r: (left + k * (width + GAP), MARGIN + level * (height + GAP)) for k, r in enumerate(rooms)}
    edges = []
    for room, direct in sorted(_needed(uses).items()):
        x, y = place[room]
        for used in sorted(direct):
            to_x, to_y = place[used]
            edges.append(_arrow(x + width / 2, y + height, to_x + width / 2, to_y, "edge"))
    boxes = [_box(x, y, width, room, "", height) for room, (x, y) in sorted(place.items())]
    return _svg(
        total + 2 * MARGIN,
        2 * MARGIN + len(floors) * (height + GAP) - GAP,
        f"Imports in {package}",
        [*edges, *boxes],
    )


@cache
def room_imports(package: str) -> Mapping[str, frozenset[str]]:
    """Return, for each folder or file at the package's root, those of the others that it imports."""
    folder = ROOT / package
    rooms = {p.stem for p in folder.iterdir() if (p / "__init__.py").is_file() or p.suffix == ".py"} - {
        "__init__"
    }
    uses: dict[str, set[str]] = {room: set() for room in rooms}
    for path in folder.rglob("*.py"):
        room = path.relative_to(folder).parts[0].removesuffix(".py")
        if room != "__init__":
            uses[room] |= {name for name in _imported(path, package) if name in rooms and name != room}
    return {room: frozenset(used) for room, used in uses.items()}


def _imported(path: Path, package: str) -> Iterable[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            head, *rest = node.module.split(".")
            if head == package:
                yield from [rest[0]] if rest else [alias.name for alias in node.names]
        elif isinstance(node, ast.Import):
            yield from (a.name.split(".")[1] for a in node.names if a.name.startswith(f"{package}."))


def _needed(uses: Mapping[str, frozenset[str]]) -> dict[str, set[str]]:
    """Return the imports without those that follow from others."""
    reached: dict[str, set[str]] = {}
    for room in TopologicalSorter(uses).static_order():
        reached[room] = set(uses[room]).union(*(reached[used] for used in uses[room]))
    return {room: {u for u in used if not any(u in reached[v] for v in used)} for room, used in uses.items()}


def _corner(number: int) -> tuple[int, int]:
    row, column = divmod(number, COLUMNS)
    return MARGIN + column * (BOX_WIDTH + GAP), MARGIN + row * (BOX_HEIGHT + GAP)


def _step(x: float, y: float, to_x: float, to_y: float) -> str:
    if y == to_y:
        return _arrow(x + BOX_WIDTH, y + BOX_HEIGHT / 2, to_x, to_y + BOX_HEIGHT / 2)
    middle = y + BOX_HEIGHT + GAP / 2
    line = f"M{x + BOX_WIDTH / 2:g},{y + BOX_HEIGHT:g} V{middle:g} H{to_x + BOX_WIDTH / 2:g} V{to_y:g}"
    return f'<path d="{line}" marker-end="url(#head)"/>'


def _arrow(x: float, y: float, to_x: float, to_y: float, kind: str = "") -> str:
    return f'<path class="{kind}" d="M{x:g},{y:g} L{to_x:g},{to_y:g}" marker-end="url(#head)"/>'


def _box(x: float, y: float, width: float, name: str, note: str, height: float = BOX_HEIGHT) -> str:
    middle = x + width / 2
    lines = [f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="6"/>']
    lines.append(f'<text class="name" x="{middle:g}" y="{y + (26 if note else 20):g}">{escape(name)}</text>')
    if note:
        lines.append(f'<text class="note" x="{middle:g}" y="{y + 47:g}">{escape(note)}</text>')
    return "".join(lines)


def _svg(width: float, height: float, title: str, parts: Iterable[str]) -> str:
    size = f'viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img"><title>{escape(title)}</title>'
    page = f'<rect class="page" width="{width:g}" height="{height:g}"/>'
    return "\n".join([head, f"<style>{STYLE}</style>", ARROW, page, *parts, "</svg>"]) + "\n"


def figures() -> dict[str, str]:
    """Return each figure's text by its file name."""
    return {"pipeline.svg": pipeline(), **{f"imports-{name}.svg": imports(name) for name in PACKAGES}}


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, text in figures().items():
        (FOLDER / name).write_text(text)
