# SPDX-License-Identifier: Apache-2.0
import json
from pathlib import Path

import onnx
import pytest

from arm_ext import cli
from arm_ext.package import read_report
from arm_ext.report.graph import DOMAIN
from arm_ext.report.report import CompileReport


def _exported(package: Path, verb: str, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.invoke([verb, str(package), "--export-graph", str(file)]) == 0
    capsys.readouterr()


@pytest.mark.parametrize("verb", ["report", "profile"])
def test_onnx_has_a_node_for_each_call_and_its_layers_as_a_function(
    verb: str, digits_package: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _exported(digits_package, verb, tmp_path / "graph.onnx", capsys)
    model = onnx.load(tmp_path / "graph.onnx")
    onnx.checker.check_model(model)
    report = read_report(digits_package, CompileReport)
    names = [node.name for node in model.graph.node]
    assert len(set(names)) == len(names)
    assert [name.partition(" #")[0] for name in names] == [call.anchor for call in report.calls]
    assert {node.domain for node in model.graph.node} == {DOMAIN}
    operators = {row.source: row.op for row in report.nodes}
    for node, function, call in zip(model.graph.node, model.functions, report.calls, strict=True):
        assert node.op_type == function.name
        assert [(each.name, each.op_type) for each in function.node] == [
            (s, operators[s]) for s in call.sources
        ]
        told = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
        assert told["kernel"].decode() == call.kernel
        assert told["macs"] == call.macs
        assert len(node.input) == max(1, len(call.reads))
        if verb == "report":
            assert told["cycles_with_caches"] == call.cycles_with_caches


def test_model_explorer_gets_the_graph_and_the_cycles_as_node_data(
    digits_package: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _exported(digits_package, "profile", tmp_path / "graph.json", capsys)
    (graph,) = json.loads((tmp_path / "graph.json").read_text())["graphs"]
    data = json.loads((tmp_path / "graph.cycles.json").read_text())[graph["id"]]
    ids = [node["id"] for node in graph["nodes"]]
    assert list(data["results"]) == ids
    assert all(edge["sourceNodeId"] in ids for node in graph["nodes"] for edge in node["incomingEdges"])
    assert sum(bool(node["incomingEdges"]) for node in graph["nodes"]) == len(ids) - 1
    attributes = [{each["key"]: each["value"] for each in node["attrs"]} for node in graph["nodes"]]
    assert all(each["bound"] for each in attributes)
    assert [int(each["cycles_with_caches"]) for each in attributes] == [
        each["value"] for each in data["results"].values()
    ]


def test_wrong_files_are_refused_before_any_work(
    digits_package: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "taken.cycles.json").mkdir()
    cases = {
        "graph.svg": "--export-graph writes files that end with .onnx, .json",
        str(digits_package / "graph.onnx"): "must not contain other files",
        str(tmp_path / "taken.json"): "is a folder",
    }
    for file, said in cases.items():
        assert cli.invoke(["profile", str(digits_package), "--export-graph", file]) == 2
        assert said in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["taken.cycles.json"]
