# SPDX-License-Identifier: Apache-2.0
import re
from typing import Any

import pytest

import arm_ext
from arm_ext.api import digits
from arm_ext.common.errors import UsageError


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"target": None}, "target=None: must be str"),
        ({"state": ["sum"]}, "state=['sum']: must be Mapping"),
        ({"precision": "fp8"}, "precision='fp8': must be one of 'fp32'"),
        ({"calibration": "best"}, "calibration='best': must be one of 'minmax'"),
        ({"shapes": "x=1,31"}, "shapes='x=1,31': must be a dict"),
        ({"shapes": {"x": (None, 31)}}, "shapes: None of input x is not a size"),
        ({"shapes": {"x": (1, [1, 2.5])}}, "shapes: [1, 2.5] of input x is not a size"),
        (
            {"shapes": {"x": (1, list(range(1, 66)))}},
            "65 shapes; a package is compiled for each, for at most 64",
        ),
    ],
)
def test_a_wrong_argument_is_named(arguments: dict[str, Any], said: str):
    with pytest.raises(UsageError, match=re.escape(said)):
        arm_ext.compile(digits.model_path("fp32"), **{"target": "host", **arguments})


@pytest.mark.parametrize("package", [None, 7, object()])
def test_what_is_no_package_is_named(package: object):
    with pytest.raises(UsageError, match=f"{re.escape(repr(package))} is not a package"):
        arm_ext.run(package)  # type: ignore[arg-type]
