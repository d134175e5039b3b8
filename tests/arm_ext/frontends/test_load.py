# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from arm_ext.errors import UsageError
from arm_ext.frontends.load import import_model
from tests.arm_ext.frontends.tflite_cases import EXACT, SCALES
from tests.arm_ext.models import mlp


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
        ("m.pt2", b"PK\x03\x04rest", "zip archive, as PyTorch and Keras write; export the model to ONNX"),
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


def test_missing_file():
    with pytest.raises(UsageError, match="no such model file"):
        import_model("nowhere.onnx")
