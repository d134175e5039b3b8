# SPDX-License-Identifier: Apache-2.0
import json
import re
from pathlib import Path

import numpy as np
import onnx
import pytest

from arm_ext.api import digits
from arm_ext.api.explain import NAMES
from arm_ext.cli import invoke
from arm_ext.cli.explain import _detail, _every_rule
from arm_ext.report.explanation import ExplainReport, RuleReport, Unapplied
from schedules.diagnostic import Diagnostic
from tests.arm_ext import npu_models
from tests.arm_ext.explained import explained
from tests.arm_ext.models import mlp

SCREEN_LINES = 24


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    onnx.save(explained(), "m.onnx")
    onnx.save(explained(quantised=True), "q.onnx")
    return "m.onnx"


def _unapplied(reason: str, limit: str = "", actual: str = "", *, nodes: tuple[str, ...]) -> Unapplied:
    return Unapplied(diagnostic=Diagnostic(reason, limit, actual, nodes))


def _rule(near: int = 0, rejected: int = 0, applied: int = 0) -> RuleReport:
    return RuleReport(
        rule="halve",
        effect="Halves.",
        definition="Halves.\n\n    x → x / 2",
        applied=tuple((f"/a{i}",) for i in range(applied)),
        rejected=tuple(_unapplied(f"odd {i // 2}", nodes=(f"/r{i}",)) for i in range(rejected)),
        near_misses=tuple(
            _unapplied(
                "a part of the pattern does not match",
                "relax.abs or relax.exp",
                f"relax.sin at /at{i}",
                nodes=tuple(f"/n{i}.{k}" for k in range(i)),
            )
            for i in range(near)
        ),
    )


def test_a_model(model: str, capsys: pytest.CaptureFixture[str]):
    assert invoke(["explain", model, "--all"]) == 0
    first, *blocks, hint = capsys.readouterr().out.rstrip().split("\n\n")
    assert re.fullmatch(rf"m: 5 of {len(NAMES)} rules applied, at 7 places", first)
    wide = [re.sub(r"\n {12}", " ", block) for block in blocks]
    by_rule = {block.partition(":")[0]: block.splitlines() for block in wide}
    assert by_rule["fold_batch_norm"][1:] == [
        "  applied   /conv1, /norm1",
        "  rejected  /conv2 is also needed by /skip; 504 elements would be computed twice at /conv2, /norm2",
    ]
    assert by_rule["merge_scales"] == [
        "merge_scales: Two consecutive scales become one scale.",
        "  nearly    expected a constant for a, found relax.add at /gelu/add (/gelu/mul, /gelu/half)",
    ]
    assert "merge_clips" in " ".join(by_rule["nothing to do for"])
    assert hint.endswith("m.onnx --rule NAME")


def test_what_is_not_tried_is_listed(model: str, capsys: pytest.CaptureFixture[str]):
    assert invoke(["explain", "q.onnx"]) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("Not tried")]
    assert re.search(r"\d rules, which --rules names: each changes last bits of float results", line)
    assert invoke(["explain", "q.onnx", "--all"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert re.search(r"not tried, [^:]* could move an integer, [^:]*: [^.]*divide_to_multiply", text)


def test_an_overview_begins_with_what_happened(model: str, capsys: pytest.CaptureFixture[str]):
    assert invoke(["explain", model, "--target", "cortex-a76"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert re.fullmatch(
        r"m: \d+ layers in \d+ kernel calls, [\d.,]+( M)? cycles with caches, estimated", lines[0]
    )
    assert lines[2] == "What became of the layers, by operator:"
    (norms,) = [line for line in lines if line.startswith("  BatchNormalization")]
    assert norms.endswith("transpose 1, in the call of another layer 1")
    for title in ("What rewrites save", "Worth a change"):
        start = next(i for i, line in enumerate(lines) if line.startswith(title))
        block = lines[start + 1 : lines.index("", start)]
        gains = [float(line.split()[0]) for line in block if re.match(r" +[\d.]+ % ", line)]
        assert gains == sorted(gains, reverse=True)
        assert gains[0] > 0
    assert lines[-1].endswith("m.onnx --target cortex-a76 --node NAME")


def test_all_about_one_node(model: str, capsys: pytest.CaptureFixture[str]):
    assert invoke(["explain", model, "--node", "/norm1", "--target", "cortex-a76"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("/norm1: BatchNormalization\n")
    assert re.search(r"import +nn.batch_norm.*\n +canonicalize +nn.conv2d", text)
    assert "applied   fold_batch_norm  to /conv1, /norm1" in text
    assert "Computed by gemm_f32 " in text
    prices = [float(price) for price in re.findall(r"not taken with .*, ([\d.]+) times the selection", text)]
    assert len(prices) > 3
    assert prices == sorted(prices)
    assert "declined  winograd_f32: " not in text  # of 1 x 1 or strided ones it is no alternative
    assert max(map(len, text.splitlines())) <= 120


def test_an_unknown_node_is_refused_with_near_names(model: str, capsys: pytest.CaptureFixture[str]):
    assert invoke(["explain", model, "--node", "/norm3"]) == 2
    assert "has no node '/norm3'; did you mean" in capsys.readouterr().err


def test_one_rule_in_full(model: str, capsys: pytest.CaptureFixture[str]):
    assert invoke(["explain", model, "--rule", "fold_batch_norm"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "fold_batch_norm"
    assert any(line.startswith("    where s = gamma / sqrt(var + epsilon)") for line in lines)
    assert lines[-5:] == [
        "Applied at 1 place:",
        "  /conv1, /norm1",
        "Rejected at 1 place:",
        "  /conv2, /norm2: /conv2 is also needed by /skip; 504 elements would be computed twice",
        "Nearly matches at 0 places",
    ]


def test_a_rule_that_was_not_tried(model: str, capsys: pytest.CaptureFixture[str]):
    assert invoke(["explain", "q.onnx", "--rule", "merge_scales"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("Not tried: it changes last bits")


def test_a_pass_in_full(model: str, capsys: pytest.CaptureFixture[str]):
    assert invoke(["explain", model, "--rule", "fuse:conv2d", "--target", "cortex-a76"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "fuse:conv2d"
    assert lines[-7:-5] == ["Applied at 2 places:", "  /conv1, /norm1"]
    assert lines[-4] == "Rejected at 2 places:"
    assert invoke(["explain", model, "--rule", "fuse:conv9d"]) == 2
    assert "did you mean fuse:conv" in capsys.readouterr().err


def test_equal_reasons_of_different_nodes_are_one():
    ends = tuple(_unapplied(f"/next{i}: relax.exp is no step", nodes=("/a",)) for i in range(3))
    report = ExplainReport(model="m", rules=(_rule().model_copy(update={"rejected": ends}),))
    assert "  rejected  /next0: relax.exp is no step at /a; 2 more places" in _every_rule(
        report, Path("m.onnx")
    )


def test_json_is_one_document(model: str, capsys: pytest.CaptureFixture[str]):
    assert invoke(["explain", model, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema_version"] == 4
    rules = {rule["rule"]: rule for rule in document["rules"]}
    assert list(rules) == list(NAMES)
    assert rules["fold_batch_norm"]["applied"] == [["/conv1", "/norm1"]]
    assert rules["recognize_gelu"]["rejected"][0]["diagnostic"]["actual"] == "0.25"
    near = rules["merge_scales"]["near_misses"][0]["diagnostic"]
    assert (near["limit"], near["actual"]) == ("a constant for a", "relax.add at /gelu/add")


def test_json_of_one_rule(model: str, capsys: pytest.CaptureFixture[str]):
    assert invoke(["explain", model, "--rule", "merge_clips", "--json"]) == 0
    (rule,) = json.loads(capsys.readouterr().out)["rules"]
    assert rule["rule"] == "merge_clips"


def test_the_overview_counts_what_it_leaves_out():
    report = ExplainReport(model="m", rules=(_rule(near=9, rejected=9, applied=9),))
    lines = list(_every_rule(report, Path("m.onnx")))
    assert lines[3:9] == [
        "  applied   /a0; /a1; /a2; 6 more places",
        "  rejected  odd 0 at /r0; 1 more place",
        "  rejected  odd 1 at /r2; 1 more place",
        "  rejected  odd 2 at /r4; 1 more place",
        "  rejected  2 more reasons",
        "  nearly    expected relax.abs or relax.exp, found relax.sin at /at8 "
        "(/n8.0, /n8.1, /n8.2, /n8.3 … (8 nodes)); 8 more",
    ]


def test_of_many_near_misses_the_best_are_told():
    lines = list(_detail(_rule(near=50)))
    start = lines.index("Nearly matches at 50 places:")
    assert lines[start + 1].startswith("  /n49.0, /n49.1")
    assert len(lines) - start == 22
    assert lines[-1] == "  … and 30 that gain less; --json has all"


BAD = [
    ("unknown rule", ["m.onnx", "--rule", "fold_batchnorm"], 2, "did you mean fold_batch_norm"),
    (
        "no rule's name",
        ["m.onnx", "--rule", "xyz"],
        2,
        "the nearest of ",
    ),
    ("missing file", ["n.onnx"], 2, "n.onnx: no such model file"),
    ("empty file", ["empty.onnx"], 2, "the file is empty"),
    ("not ONNX", ["text.onnx"], 2, "not an ONNX model"),
    ("dynamic dimension", ["dynamic.onnx"], 2, "--shape x=1,31"),
    ("malformed shape", ["dynamic.onnx", "--shape", "x=1,a"], 2, "sizes that occur: --shape 'x=1,{64,128}'"),
    ("no model", [], 2, "MODEL"),
]


@pytest.mark.parametrize(("arguments", "code", "says"), [c[1:] for c in BAD], ids=[c[0] for c in BAD])
def test_bad_input(
    model: str, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, says: str
):
    Path("empty.onnx").write_text("")
    Path("text.onnx").write_text("hello, world")
    onnx.save(mlp("n"), "dynamic.onnx")
    assert invoke(["explain", *arguments]) == code
    captured = capsys.readouterr()
    assert says in captured.err
    assert "Traceback" not in captured.err
    assert len(captured.err.splitlines()) <= SCREEN_LINES
    assert captured.out == ""


def test_a_model_with_steps_around_it_and_quantised_by_samples_is_what_compile_has(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    images, _ = digits.held_out()
    name = onnx.load(digits.model_path("fp32")).graph.input[0].name
    np.savez(tmp_path / "samples.npz", **{name: images[:4]})
    steps = {"inputs": {name: {"frame": [8, 8, 1], "steps": [{"normalize": {"divide": 16}}]}}}
    (tmp_path / "steps.yaml").write_text(json.dumps(steps))
    given = ["--quantize", str(tmp_path / "samples.npz"), "--preprocess", str(tmp_path / "steps.yaml")]
    assert invoke(["explain", str(digits.model_path("fp32")), "--json", *given]) == 0
    rules = {rule["rule"]: rule for rule in json.loads(capsys.readouterr().out)["rules"]}
    assert rules["fuse:conv2d_s8"]["applied"]
    assert f"preprocess:{name}" in str(rules)
    assert invoke(["tune", str(digits.model_path("fp32")), "--preprocess", "absent.yaml"]) == 2
    assert "absent.yaml" in capsys.readouterr().err


def test_a_node_tells_where_an_npu_runs_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "mixed.onnx"
    onnx.save(npu_models.mixed(), path)
    words = ["explain", str(path), "--npu", "ethos-u55-256", "--target", "cortex-a55", "--node"]
    assert invoke([*words, "conv"]) == 0
    said = capsys.readouterr().out
    assert "Where it runs:" in said
    assert "ethos-u55-256" in said  # why not: the hand-over costs more than its region saves
    assert invoke([*words, "conv", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["node"]["npu"].startswith("not ethos-u55-256: ")


def test_a_float_model_has_no_npu(capsys: pytest.CaptureFixture[str]):
    assert invoke(["explain", str(digits.model_path("fp32")), "--npu", "ethos-u55-256"]) == 2
    assert "needs a quantised model" in capsys.readouterr().err
