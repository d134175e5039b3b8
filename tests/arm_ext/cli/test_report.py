# SPDX-License-Identifier: Apache-2.0
import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from arm_ext.cli.report import report
from arm_ext.common.errors import UsageError
from arm_ext.package import REPORT_JSON, REPORT_TEXT


def shown(*arguments: str | Path) -> Result:
    return CliRunner().invoke(report, [str(each) for each in arguments])


def test_the_page_of_a_package_and_all_of_it(digits_package: Path) -> None:
    page, whole = shown(digits_package), shown(digits_package, "--all")
    assert page.stdout == (digits_package / REPORT_TEXT).read_text()
    assert "Layers in execution order." in whole.stdout
    assert "Layers in execution order." not in page.stdout
    parsed = json.loads(shown(digits_package, "--json").stdout)
    assert parsed == json.loads((digits_package / REPORT_JSON).read_text())


@pytest.mark.parametrize("what", ["missing", "changed"])
def test_what_is_no_report_is_refused(digits_package: Path, tmp_path: Path, what: str) -> None:
    folder = tmp_path / "p"
    if what == "changed":
        shutil.copytree(digits_package, folder)
        (folder / REPORT_JSON).write_text((folder / REPORT_JSON).read_text() + " ")
    found = shown(folder)
    assert isinstance(found.exception, UsageError)
    assert ("there is no package" if what == "missing" else "is damaged") in str(found.exception)
