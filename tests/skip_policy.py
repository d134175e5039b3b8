# SPDX-License-Identifier: Apache-2.0
"""pytest plugin: a test may skip, or fail as expected, only if the list names it with its reason.

    PYTHONPATH=tests python -m pytest -p skip_policy --skips tests/skips.txt

A line of the list is `NODEID :: REASON`; `*` and `?` match as in a shell. Both must match what pytest
reports, so that a listed test which comes to skip for another reason is found. `#` starts a comment line.
"""

import re
from dataclasses import dataclass, field
from pathlib import Path

import pytest

SEPARATOR = " :: "


def _matches(pattern: str, text: str) -> bool:
    """Like fnmatch, but brackets are themselves: node ids of parametrised tests have them."""
    regex = re.escape(pattern).replace(r"\*", ".*").replace(r"\?", ".")
    return re.fullmatch(regex, text, re.DOTALL) is not None


def read_list(path: Path) -> list[str]:
    """Return the entries of a list; UsageError for a line without a reason."""
    lines = [line.strip() for line in path.read_text().splitlines()]
    entries = [line for line in lines if line and not line.startswith("#")]
    for entry in entries:
        node, _, reason = entry.rpartition(SEPARATOR)
        if not node or not reason:
            raise pytest.UsageError(f"{path}: not 'NODEID{SEPARATOR}REASON': {entry}")
    return entries


@dataclass(eq=False)  # pluggy wants plugins hashable
class SkipPolicy:
    """Collects what skipped and judges it at the end of the run."""

    path: Path
    entries: list[str]
    unlisted: list[str] = field(default_factory=list)
    used: set[str] = field(default_factory=set)

    def _judge(self, skipped: str) -> None:
        found = [entry for entry in self.entries if _matches(entry, skipped)]
        self.used.update(found)
        if not found:
            self.unlisted.append(skipped)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take in a skip, an expected failure, or an expected failure that passed."""
        if hasattr(report, "wasxfail"):
            self._judge(f"{report.nodeid}{SEPARATOR}xfail: {report.wasxfail}")
        elif report.skipped:
            self._judge(f"{report.nodeid}{SEPARATOR}{_reason(report)}")

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Take in a module that skips as a whole."""
        if report.skipped:
            self._judge(f"{report.nodeid}{SEPARATOR}{_reason(report)}")

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Fail a run that passed but for unlisted skips."""
        if self.unlisted and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """List the unlisted skips, ready to paste, and the entries that skipped nothing."""
        if self.unlisted:
            terminalreporter.section(f"skipped, but not in {self.path}", red=True)
            for line in self.unlisted:
                terminalreporter.line(line, red=True)
        for entry in self.entries:
            if entry not in self.used:
                terminalreporter.line(f"{self.path}: skipped nothing here: {entry}", yellow=True)


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    assert isinstance(report.longrepr, tuple)
    return str(report.longrepr[2]).removeprefix("Skipped: ")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add --skips."""
    parser.addoption("--skips", type=Path, metavar="FILE", help="fail on a skip that FILE does not list")


def pytest_configure(config: pytest.Config) -> None:
    """Register the policy if there is a list; under xdist only where the reports come together."""
    path: Path | None = config.getoption("--skips")
    if path is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(SkipPolicy(path, read_list(path)))
