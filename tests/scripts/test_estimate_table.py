# SPDX-License-Identifier: Apache-2.0
import re

import estimate_table
import pytest

from arm_ext.api import digits

RATIO = re.compile(r"\| digits_\w+ \| [\w-]+ \| [\d.,]+ \| [\d.,]+ \| ([\d.]+) \|")


@pytest.mark.parametrize("target", ["cortex-a53", "cortex-a76", "neoverse-n2"])
def test_estimates_are_within_a_quarter_of_profiles(target: str, capsys: pytest.CaptureFixture[str]) -> None:
    models = [str(digits.model_path(kind)) for kind in ("fp32", "int8")]
    assert estimate_table.main([*models, "--target", target, "--calls", "2"]) == 0
    out = capsys.readouterr().out
    ratios = [float(each) for each in RATIO.findall(out.split("\n\n")[0])]
    assert len(ratios) == 2
    assert all(0.75 < each < 1.25 for each in ratios), out
