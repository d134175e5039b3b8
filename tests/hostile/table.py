# SPDX-License-Identifier: Apache-2.0
"""All hostile cases."""

from tests.hostile import environment_cases, model_cases, options_cases, package_cases
from tests.hostile.case import Case

CASES: tuple[Case, ...] = (
    *options_cases.CASES,
    *model_cases.CASES,
    *package_cases.CASES,
    *environment_cases.CASES,
)
