# SPDX-License-Identifier: Apache-2.0
"""The skip policy, run by pytest on small test files."""

from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

TESTS = """
    import pytest
    @pytest.mark.parametrize("core", ["a53", "a76"])
    def test_isa(core):
        if core == "a53":
            pytest.skip("the board lacks dotprod")
    def test_plain():
        pass
"""
LISTED = "test_it.py::test_isa[a53] :: the board lacks dotprod"


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(Path(__file__).parent)
    pytester.path.joinpath("part").mkdir()
    pytester.path.joinpath("part/conftest.py").touch()  # with one, pluggy asks plugins for their hash
    pytester.path.joinpath("part/test_part.py").write_text("def test_part(): pass")

    def run(tests: str, *entries: str) -> pytest.RunResult:
        pytester.makepyfile(test_it=tests)
        skips = pytester.makefile(".txt", skips="\n".join(entries))
        return pytester.runpytest("-p", "skip_policy", "--skips", skips)

    return run


@pytest.mark.parametrize(
    "entry", [LISTED, "test_it.py::test_isa* :: the board lacks *", "# comment\n\n" + LISTED]
)
def test_listed_skip_passes(run, entry: str) -> None:
    result = run(TESTS, entry)
    result.assert_outcomes(passed=3, skipped=1)
    assert result.ret == pytest.ExitCode.OK
    result.stdout.no_fnmatch_line("*skipped nothing here*")


@pytest.mark.parametrize(
    "entries",
    [
        (),
        ("test_it.py::test_isa[a53] :: no network",),
        ("test_it.py::test_isa[a76] :: the board lacks dotprod",),
    ],
    ids=["empty list", "other reason", "other test"],
)
def test_unlisted_skip_fails_and_is_shown(run, entries: tuple[str, ...]) -> None:
    result = run(TESTS, *entries)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        ["*skipped, but not in *", "test_it.py::test_isa[[]a53] :: the board lacks dotprod"]
    )


def test_entry_that_skips_nothing_is_only_told(run) -> None:
    result = run(TESTS, LISTED, "test_gone.py::test_gone :: gone")
    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines(["*skipped nothing here: test_gone.py::test_gone :: gone"])


@pytest.mark.parametrize("outcome", ["assert False", "pass"])
def test_expected_failure_needs_an_entry_whether_it_fails_or_not(run, outcome: str) -> None:
    tests = f"import pytest\n@pytest.mark.xfail(reason='slow')\ndef test_x(): {outcome}"
    assert run(tests).ret == pytest.ExitCode.TESTS_FAILED
    assert run(tests, "test_it.py::test_x :: xfail: slow").ret == pytest.ExitCode.OK


def test_skipped_module_needs_an_entry(run) -> None:
    tests = "import pytest\npytest.skip('no zig', allow_module_level=True)"
    assert run(tests).ret == pytest.ExitCode.TESTS_FAILED
    assert run(tests, "test_it.py :: no zig").ret == pytest.ExitCode.OK


def test_failure_stays_a_failure(run) -> None:
    assert run("def test_x(): assert False").ret == pytest.ExitCode.TESTS_FAILED


def test_entry_without_a_reason_is_a_usage_error(run) -> None:
    result = run(TESTS, "test_it.py::test_isa[a53]")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*not 'NODEID :: REASON'*"])
