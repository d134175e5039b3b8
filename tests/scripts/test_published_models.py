# SPDX-License-Identifier: Apache-2.0
import hashlib
import io
import tarfile
import tomllib
import zipfile
from pathlib import Path

import published_models
import pytest
from published_models import LIST, Published

from arm_ext.api import digits


def _models() -> list[Published]:
    return [Published(**entry) for entry in tomllib.loads(LIST.read_text())["model"]]


def test_the_list_names_each_model_once_and_its_package_with_a_version():
    models = _models()
    assert len(models) == len({model.sha256 for model in models}) >= 60
    for model in models:
        assert len(bytes.fromhex(model.sha256)) == 32
        assert model.package.startswith(("pip:", "npm:"))
        assert model.peer in ("onnxruntime", "litert")


def test_models_come_out_of_archives_of_all_kinds(tmp_path: Path):
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w") as file:
        file.writestr("deep.tflite", b"deep")
    with zipfile.ZipFile(tmp_path / "a.whl", "w") as file:
        file.writestr("m/a.task", inner.getvalue())
    with tarfile.open(tmp_path / "b.tgz", "w:gz") as archive:
        (tmp_path / "m.onnx").write_bytes(b"model")
        archive.add(tmp_path / "m.onnx", "package/m.onnx")
    assert published_models.member(tmp_path / "a.whl", "m/a.task!deep.tflite") == b"deep"
    assert published_models.member(tmp_path / "b.tgz", "package/m.onnx") == b"model"


def test_a_row_tells_of_a_model_that_is_here_or_why_there_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv("PYTHONPATH", raising=False)  # in which tests/arm_ext would be the command's package
    data = digits.model_path().read_bytes()
    model = Published("pip:numbers==1.0", "numbers/digits.onnx", hashlib.sha256(data).hexdigest())
    (tmp_path / f"{model.sha256[:8]}-digits.onnx").write_bytes(data)
    path = published_models.fetched(model, tmp_path)
    row = published_models.row(model, path, "cortex-a53", peers=False)
    name, runtime, cold, warm, generic, *_, says = row
    assert (name, runtime, says) == ("numbers digits", "onnxruntime", "")
    assert float(cold) >= 0  # CPU seconds of child processes, which some sandboxes do not count
    assert float(warm) >= 0
    assert generic == "0 %"
    path.write_bytes(b"none")
    says = published_models.row(model, path, "cortex-a53", peers=False)[-1]
    assert says.startswith("error: ")
