# SPDX-License-Identifier: Apache-2.0
"""Hostile .pt2 files, one for each way in which torch.export.load runs code of a file: here none runs any."""

import json
import pickle
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import arm_ext
from arm_ext.cli import invoke
from arm_ext.common.errors import UsageError
from arm_ext.frontends.load import import_model, trusted
from arm_ext.frontends.torch.archive import read_program
from tests.arm_ext.frontends.torch.models import MODELS, exported

_MODEL, _WEIGHTS, _CONSTANTS = (
    "models/model.json",
    "data/weights/model_weights_config.json",
    "data/constants/model_constants_config.json",
)
_SAMPLES = "data/sample_inputs/model.pt"
Files = dict[str, bytes]


class Net(nn.Module):
    """A weight, a buffer, a constant, a cond and a dimension of any size."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.register_buffer("scale", torch.ones(1).expand(4))

    def forward(self, x: Tensor, named: dict[str, Tensor]) -> Tensor:
        y = self.linear(x) * self.scale + named["k"] + torch.tensor([1.0, 2.0, 3.0, 4.0])
        return torch.cond(y.sum() > 0, lambda a: a + 1, lambda a: a - 1, (y,))


class Touch:
    """Creates a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self._path,)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Files:
    """The files in the archive of `Net`, by name."""
    path = tmp_path_factory.mktemp("saved") / "net.pt2"
    rows = torch.export.Dim("rows", min=2, max=100)
    example = (torch.randn(3, 4), {"k": torch.randn(3, 4)})
    program = torch.export.export(Net().eval(), example, dynamic_shapes=({0: rows}, {"k": {0: rows}}))
    torch.export.save(program, path)
    with zipfile.ZipFile(path) as archive:
        return {name.partition("/")[2]: archive.read(name) for name in archive.namelist()}


def write(path: Path, files: Files, compression: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in files.items():
            archive.writestr(f"net/{name}", content)
    return path


def edited(files: Files, name: str, edit: Callable[[Any], None]) -> Files:
    document = json.loads(files[name])
    edit(document)
    return {**files, name: json.dumps(document).encode()}


def renamed(files: Files, name: str, old: str, new: str) -> Files:
    return {**files, name: files[name].replace(json.dumps(old).encode(), json.dumps(new).encode())}


def pickled_samples(files: Files, canary: Path) -> Files:
    return {**files, _SAMPLES: pickle.dumps(Touch(canary))}


def pickled_weight(files: Files, canary: Path) -> Files:
    files = edited(files, _WEIGHTS, lambda d: d["config"]["linear.bias"].update(use_pickle=True))
    path = json.loads(files[_WEIGHTS])["config"]["linear.bias"]["path_name"]
    return {**files, f"data/weights/{path}": pickle.dumps(Touch(canary))}


def pickled_constant(files: Files, canary: Path) -> Files:
    constant = {"path_name": "opaque_obj_0", "is_param": False, "use_pickle": True, "tensor_meta": None}
    files = edited(files, _CONSTANTS, lambda d: d["config"].update(lifted=constant))
    return {**files, "data/constants/opaque_obj_0": pickle.dumps(Touch(canary))}


def pickled_weights_of_old(files: Files, canary: Path) -> Files:
    kept = {name: content for name, content in files.items() if name != _WEIGHTS}
    return {**kept, "data/weights/model.pt": pickle.dumps(Touch(canary))}


def expression(files: Files, canary: Path) -> Files:
    def edit(document: Any) -> None:
        x = document["graph_module"]["graph"]["tensor_values"]["x"]
        x["sizes"][0]["as_expr"]["expr_str"] = f"open({str(canary)!r}, 'w')"

    return edited(files, _MODEL, edit)


def name_of_a_value(files: Files, canary: Path) -> Files:
    return renamed(files, _MODEL, "named_k", f"k=open({str(canary)!r}, 'w')")


def guard(files: Files, canary: Path) -> Files:
    code = f"open({str(canary)!r}, 'w') is not None"
    return edited(files, _MODEL, lambda d: d.update(guards_code=[code]))


def function_of_python(files: Files, canary: Path) -> Files:
    def edit(document: Any) -> None:
        node = document["graph_module"]["graph"]["nodes"][0]
        argument = {"name": "command", "arg": {"as_string": f"touch {canary}"}, "kind": 1}
        node.update(target="torch.os.system", inputs=[argument])

    return edited(files, _MODEL, edit)


def operator_that_writes_a_file(files: Files, canary: Path) -> Files:
    def edit(document: Any) -> None:
        graph = document["graph_module"]["graph"]
        node = next(node for node in graph["nodes"] if node["target"] == "torch.ops.aten.linear.default")
        values = {"filename": {"as_string": str(canary)}, "shared": {"as_bool": True}, "size": {"as_int": 4}}
        node["inputs"] = [{"name": name, "arg": value, "kind": 1} for name, value in values.items()]
        node["target"] = "torch.ops.aten.from_file.default"

    return edited(files, _MODEL, edit)


def path_of_a_buffer(files: Files, canary: Path) -> Files:
    path = f'scale", open({str(canary)!r}, "w"), "'
    return renamed(renamed(files, _MODEL, "scale", path), _WEIGHTS, "scale", path)


def module_of_an_enumeration(files: Files, canary: Path) -> Files:
    (canary.parent / "imported.py").write_text(f"open({str(canary)!r}, 'w')")

    def edit(document: Any) -> None:
        signature = document["graph_module"]["module_call_graph"][0]["signature"]
        version, tree = json.loads(signature["in_spec"])
        enumeration = {"__enum__": True, "fqn": "imported:Enum", "name": "a"}
        tree["context"] = json.dumps(enumeration)
        signature["in_spec"] = json.dumps([version, tree])

    return edited(files, _MODEL, edit)


# What is refused, by a part of the message; what is ignored, by none.
_HOSTILE: dict[Callable[[Files, Path], Files], str | None] = {
    pickled_samples: None,
    pickled_weight: "'linear.bias' is a Python object, stored as a pickle",
    pickled_constant: "'lifted' is a Python object",
    pickled_weights_of_old: "data/weights/model.pt in it is a pickle",
    expression: 'a size in it is not an arithmetic expression: "open',
    name_of_a_value: 'a name in it is not an identifier: "k=open',
    guard: None,
    function_of_python: "a node calls 'torch.os.system', which is not an operator of PyTorch",
    operator_that_writes_a_file: "a node calls 'torch.ops.aten.from_file.default'",
    path_of_a_buffer: "is not a valid module path",
    module_of_an_enumeration: "keys of its inputs or outputs are neither strings",
}


@pytest.mark.parametrize("attack", _HOSTILE, ids=lambda attack: attack.__name__)
def test_nothing_of_a_hostile_file_runs(
    attack: Callable[[Files, Path], Files], saved: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    canary, reason = tmp_path / "canary", _HOSTILE[attack]
    path = write(tmp_path / "net.pt2", attack(saved, canary))
    shapes = {"x": (3, 4), "named_k": (3, 4)}
    if reason is None:
        imported = import_model(path, shapes)
        outputs, _ = imported.reference([np.ones((3, 4), np.float32)] * 2)
        assert outputs
    else:
        with pytest.raises(UsageError, match="PyTorch would run code of the file") as refused:
            import_model(path, shapes)
        assert reason in str(refused.value)
        assert "--trust" in str(refused.value)
    assert not canary.exists()


_OPENED_BY_TORCH = """
import os, sys, torch

def opened(path):
    sys.path.insert(0, os.path.dirname(path))
    torch.export.load(path).module()(torch.ones(3, 4), {"k": torch.ones(3, 4)})

good, *hostile = sys.argv[1:]
opened(good)  # loads most of torch, once
for path in hostile:
    if not os.fork():
        opened(path)
        os._exit(0)
    os.wait()
"""


@pytest.mark.long
def test_torch_runs_what_these_files_hold(saved: Files, tmp_path: Path) -> None:
    # Else the test above would show nothing. Functions of Python are torch's to refuse, too: its verifier does, after
    # it has looked them up.
    attacks = [attack for attack in _HOSTILE if attack is not function_of_python]
    canaries, paths = [], [write(tmp_path / "good.pt2", saved)]
    for attack in attacks:
        folder = tmp_path / attack.__name__
        folder.mkdir()
        canaries.append(folder / "canary")
        paths.append(write(folder / "net.pt2", attack(saved, canaries[-1])))
    subprocess.run([sys.executable, "-c", _OPENED_BY_TORCH, *paths], capture_output=True, check=False)
    assert [canary.parent.name for canary in canaries if not canary.exists()] == []


@pytest.mark.parametrize(
    "command", [["compile", "--target", "host", "-o", "net.armpkg"], ["profile"]], ids=lambda each: each[0]
)
def test_a_trusted_file_is_opened_as_torch_does(
    command: list[str], saved: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    canary = tmp_path / "canary"
    path = write(tmp_path / "net.pt2", pickled_constant(saved, canary))
    given = [*command, str(path)]
    given += ["--shape", "x=3,4", "--shape", "named_k=3,4"]
    assert invoke(given) == 2
    assert not canary.exists()
    invoke([*given, "--trust"])
    assert canary.exists()


def test_trust_is_for_pt2_alone(tmp_path: Path) -> None:
    assert trusted(tmp_path / "model.onnx") == tmp_path / "model.onnx"


@pytest.mark.parametrize("name", MODELS)
def test_what_is_read_is_what_torch_reads(name: str, tmp_path: Path) -> None:
    torch.export.save(exported(name), tmp_path / "model.pt2")
    ours, torchs = read_program(tmp_path / "model.pt2"), torch.export.load(tmp_path / "model.pt2")
    assert str(ours.graph) == str(torchs.graph)
    assert ours.state_dict.keys() == torchs.state_dict.keys()
    assert all(torch.equal(value, torchs.state_dict[key]) for key, value in ours.state_dict.items())


def test_sizes_and_nested_inputs_are_read(saved: Files, tmp_path: Path) -> None:
    path = write(tmp_path / "net.pt2", saved)
    ours, torchs = read_program(path), torch.export.load(path)
    assert str(ours.graph) == str(torchs.graph)
    assert str(ours.range_constraints) == str(torchs.range_constraints)
    values = torch.randn(5, 4), {"k": torch.randn(5, 4)}
    assert torch.equal(ours.module()(*values), torchs.module()(*values))


def test_a_compressed_archive_is_refused(saved: Files, tmp_path: Path) -> None:
    path = write(tmp_path / "net.pt2", saved, zipfile.ZIP_DEFLATED)
    with pytest.raises(UsageError, match="is compressed, which torch"):
        import_model(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sizes": [{"as_int": 2**40}]}, "exceeds its file"),
        ({"strides": [{"as_int": 2**60}]}, "exceeds its file"),
        ({"strides": [{"as_int": -1}]}, "has sizes"),
        ({"storage_offset": {"as_int": 1}}, "exceeds its file"),
        ({"sizes": [{"as_int": "4"}]}, "SymInt.as_int is"),
        ({"sizes": [{"as_int": 2**70}]}, "SymInt.as_int is"),
        ({"dtype": 99}, "99 is not a valid ScalarType"),
    ],
)
def test_a_weight_beyond_its_bytes_is_refused(
    change: dict[str, Any], message: str, saved: Files, tmp_path: Path
) -> None:
    files = edited(saved, _WEIGHTS, lambda d: d["config"]["linear.bias"]["tensor_meta"].update(change))
    with pytest.raises(UsageError, match=message):
        import_model(write(tmp_path / "net.pt2", files))


def test_python_passes_trust_on(saved: Files, tmp_path: Path) -> None:
    path = write(tmp_path / "net.pt2", pickled_weight(saved, tmp_path / "canary"))
    with pytest.raises(UsageError, match=r"trust=True"):
        arm_ext.explain(path, shapes={"x": (3, 4), "named_k": (3, 4)})
