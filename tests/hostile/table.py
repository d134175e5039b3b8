# SPDX-License-Identifier: Apache-2.0
"""All hostile cases, and those of them that every test run takes."""

from tests.hostile import (
    environment_cases,
    model_cases,
    operator_cases,
    options_cases,
    package_cases,
    verb_cases,
)
from tests.hostile.case import DONE, Case

CASES: tuple[Case, ...] = (
    *options_cases.CASES,
    *model_cases.CASES,
    *operator_cases.CASES,
    *package_cases.CASES,
    *environment_cases.CASES,
    *verb_cases.CASES,
)

# Kinds whose cases need no package, and most of which end before anything is compiled.
_QUICK_KINDS = ("compile/yaml", "compile/external-data", "compile/linker", "compile/vela-ini")
_QUICK_SECONDS = 60


def _is_quick(case: Case) -> bool:
    """Whether a case takes a second or less, and models of ONNX alone."""
    quick = f"{case.verb}/{case.kind}" in _QUICK_KINDS and case.seconds <= _QUICK_SECONDS
    return quick and DONE not in case.exits and not case.needs


# Each second of them: neighbours are variants of one fault.
_FAST = frozenset(case.id for case in [case for case in CASES if _is_quick(case)][::2])


def is_fast(case: Case) -> bool:
    """Whether every test run takes a case; all run with -m long."""
    return case.id in _FAST
