#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write docs/reference/operators.md from the tables of the front ends, and from the table of cases that tests run.

pip install -e .[torch,stablehlo]
python scripts/operators_page.py
"""

from collections.abc import Iterable
from pathlib import Path

from arm_ext.frontends.supported import SUPPORTED
from tests.arm_ext.frontends.ops.vocabulary_cases import FAMILIES, Case

ROOT = Path(__file__).parents[1]

PAGE = ROOT / "docs" / "reference" / "operators.md"
FORMATS = {"onnx": "ONNX", "pytorch": "PyTorch", "tflite": "TFLite", "stablehlo": "StableHLO"}

HEAD = """\
# Operators

Operators that models may have, by format; `arm-ext operators` prints the lists. An operator that is not listed, or a
form of one that is not supported, is refused with the node's name and what to do instead; a
[plugin](../guides/extending.md) can bring it.
`scripts/operators_page.py` writes this page from the tables that the compiler itself reads.

Float operators take float32 and float16, and quantised models compute in int8, uint8 or int16. Which operators an
Ethos-U takes stands in [Ethos-U limits](ethos-u-limits.md).

## Checked in all formats

Each row is computed with values at the edges of its types (zeros of both signs, NaN, infinities, the least and the
greatest integers) and compared with a numpy definition, in each format that has a mark, by the tests.

"""


def page() -> str:
    """Return the text of the page."""
    names = "\n".join(_names(title, SUPPORTED[name]()) for name, title in FORMATS.items())
    return f"{HEAD}{_checked()}\n{names}"


def _checked() -> str:
    rows = ["| Operator | Types | ONNX | PyTorch | TFLite | StableHLO |", "|---|---|---|---|---|---|"]
    groups: dict[str, list[Case]] = {}
    for case in (case for cases in FAMILIES.values() for case in cases):
        groups.setdefault(case.name.partition("[")[0], []).append(case)
    for name, cases in groups.items():
        marks = (
            "yes" if any(getattr(case, each) is not None for case in cases) else ""
            for each in ("onnx", "torch", "tflite", "stablehlo")
        )
        rows.append(f"| {name} | {', '.join(_types(cases))} | {' | '.join(marks)} |")
    return "\n".join(rows) + "\n"


def _types(cases: Iterable[Case]) -> list[str]:
    return list(dict.fromkeys(case.name.partition("[")[2].rstrip("]") for case in cases))


def _names(title: str, names: list[str]) -> str:
    return f"## {title}\n\n{len(names)} operators: {', '.join(f'`{name}`' for name in names)}\n"


if __name__ == "__main__":
    PAGE.write_text(page())
