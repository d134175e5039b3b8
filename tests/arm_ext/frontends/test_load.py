# SPDX-License-Identifier: Apache-2.0
import io
import os
import sys
import zipfile
from pathlib import Path

import onnx
import pytest

from arm_ext.common.errors import EnvError, UsageError
from arm_ext.frontends.load import import_model
from tests.arm_ext.frontends.tflite.cases import EXACT, SCALES
from tests.arm_ext.models import mlp
from tests.fuzz.damage import whole_files


def write(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("name", ["m.onnx", "m.tflite", "m"])
def test_content_decides(tmp_path: Path, name: str):
    tflite = EXACT["reshape"](SCALES["pow2"])
    assert import_model(write(tmp_path / name, tflite)).format == "tflite"
    if name != "m.tflite":
        assert import_model(write(tmp_path / name, mlp().SerializeToString())).format == "onnx"


def test_loaded_onnx_model():
    assert import_model(mlp()).format == "onnx"


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("m.pt2", b"PK\x03\x04rest", "write a PyTorch model with torch.export.save"),
        ("m.pt", b"\x80\x02rest", "Python pickle"),
        ("m.h5", b"\x89HDF\r\n", "HDF5"),
        ("m.txt", b"hello there", "neither ONNX nor TFLite"),
        ("m", b"", "neither ONNX nor TFLite"),
        ("m.tflite", b"hello there", "not a TFLite model"),
        ("m.tflite", b"", "not a TFLite model"),
        ("m.onnx", b"", "the file is empty"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, name: str, data: bytes, message: str):
    with pytest.raises(UsageError, match=message):
        import_model(write(tmp_path / name, data))


def test_name_that_is_no_text(tmp_path: Path):
    data = mlp().SerializeToString()
    name = next(node.name or node.output[0] for node in mlp().graph.node).encode()
    assert name in data
    with pytest.raises(UsageError, match="may be damaged: a name in it is not valid UTF-8"):
        import_model(write(tmp_path / "m.onnx", data.replace(name, b"\xff" * len(name))))


def test_damaged_archive(tmp_path: Path):
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w") as archive:
        archive.writestr("m/archive_format", "pt2")
    data = whole.getvalue().replace(b"PK\x01\x02", b"PK\x01\xff")
    with pytest.raises(UsageError, match="the zip archive is damaged or truncated"):
        import_model(write(tmp_path / "m.pt2", data))


def test_other_exceptions_say_that_the_file_may_be_damaged(tmp_path: Path):
    model = onnx.load_model_from_string(whole_files("onnx")[1])
    model.graph.input[0].type.tensor_type.elem_type = -2
    with pytest.raises(
        UsageError, match=r"m\.onnx: the file may be damaged: reading it failed with \w+Error"
    ):
        import_model(write(tmp_path / "m.onnx", model.SerializeToString()))


@pytest.mark.parametrize("name", ["m" * 300 + ".onnx", "a/" * 3000 + "m.onnx"])
def test_a_path_that_the_system_refuses_is_the_users(name: str):
    with pytest.raises(UsageError, match="cannot be read: File name too long"):
        import_model(name)


def test_a_file_name_that_is_no_text_gives_a_model_name_that_is(tmp_path: Path):
    path = tmp_path / os.fsdecode(b"m\xff.onnx")
    onnx.save(mlp(), str(tmp_path / "m.onnx"))
    (tmp_path / "m.onnx").rename(path)
    assert import_model(path).name == "m\N{REPLACEMENT CHARACTER}"


def test_missing_file():
    with pytest.raises(UsageError, match="no such model file"):
        import_model("nowhere.onnx")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (
            'raise ImportError("libtorch_cpu.so: cannot open shared object file")',
            "does not load .libtorch_cpu.so",
        ),
        ("", "does not load"),  # a part is missing
    ],
)
def test_half_an_installation_of_torch_is_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str, says: str
):
    (tmp_path / "torch").mkdir()
    write(tmp_path / "torch" / "__init__.py", content.encode())
    monkeypatch.syspath_prepend(tmp_path)
    for module in [name for name in sys.modules if name.split(".")[0] == "torch" or ".torch" in name]:
        monkeypatch.delitem(sys.modules, module)
    with pytest.raises(EnvError, match=f"{says}.*pip install --force-reinstall torch"):
        import_model(object())  # type: ignore[arg-type]
