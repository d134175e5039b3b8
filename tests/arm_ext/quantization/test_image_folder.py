# SPDX-License-Identifier: Apache-2.0
"""Folders of images as samples: the same arrays as by hand, and a sentence for each fault."""

import os
import sys
from collections.abc import Callable
from pathlib import Path, PosixPath

import numpy as np
import onnx
import pytest
from PIL import Image

import arm_ext
from arm_ext import cli
from arm_ext.api import digits
from arm_ext.common.errors import ArmExtError, EnvError, UsageError
from arm_ext.frontends.common.imported import TensorSpec
from arm_ext.frontends.preprocess.options import Preprocess
from arm_ext.quantization import image_folder
from arm_ext.quantization.image_folder import _labels, read_images
from arm_ext.quantization.samples import read_samples

GREY = (TensorSpec("image", (1, 1, 8, 8), "float32"),)
COLOUR = (TensorSpec("camera", (1, 6, 7, 3), "float32"),)


def pixels(number: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(number).integers(0, 256, shape, np.uint8)


def write(file: Path, values: np.ndarray) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(values).save(file)


@pytest.fixture
def classes(tmp_path: Path) -> Path:
    """Two images of class b and one of a, 8 x 8, in grey."""
    for number, name in enumerate(("a/x.png", "b/x.png", "b/y.png")):
        write(tmp_path / name, pixels(number, 8, 8))
    return tmp_path


def test_sub_folders_are_classes_and_bytes_become_0_to_1(classes: Path):
    (classes / "b/Thumbs.db").write_bytes(b"none of them")
    arrays = read_images(classes, GREY, None)
    assert arrays["labels"].tolist() == [0, 1, 1]
    for number in range(3):
        expected = pixels(number, 8, 8).astype(np.float32)[None] * np.float32(1 / 255)
        np.testing.assert_array_equal(arrays["image"][number], expected)


@pytest.mark.parametrize("make", [os.mkfifo, Path.mkdir, lambda path: path.symlink_to("gone")])
def test_what_is_no_file_is_refused(classes: Path, make: Callable[[Path], None]):
    make(classes / "a/z.png")
    with pytest.raises(UsageError, match=r"a/z\.png: is not a file; expected an image"):
        read_images(classes, GREY, None)


@pytest.mark.parametrize(
    ("dtype", "shift"), [("uint8", 0), ("int8", -128)], ids=["bytes as they are", "bytes less 128"]
)
def test_integers_take_the_whole_range(classes: Path, dtype: str, shift: int):
    arrays = read_images(classes, (TensorSpec("image", (1, 8, 8, 1), dtype),), None)
    assert arrays["image"].dtype == dtype
    np.testing.assert_array_equal(arrays["image"][2, ..., 0], pixels(2, 8, 8).astype(int) + shift)


def test_steps_are_those_of_the_package(tmp_path: Path):
    write(tmp_path / "0.png", pixels(0, 10, 9, 3))
    steps = [
        {"crop": {"size": [6, 7]}},
        {"channels": [2, 1, 0]},
        {"normalize": {"divide": 255, "mean": [0.5, 0.4, 0.3], "std": 0.25}},
    ]
    given = Preprocess.model_validate({"inputs": {"camera": {"frame": [10, 9, 3], "steps": steps}}})
    found = read_images(tmp_path, COLOUR, given)
    cut = pixels(0, 10, 9, 3)[2:8, 1:8, ::-1].astype(np.float64)
    np.testing.assert_allclose(found["camera"][0], (cut / 255 - [0.5, 0.4, 0.3]) / 0.25, rtol=0, atol=1e-5)
    assert "labels" not in found


def test_an_image_of_another_size_covers_the_frame(tmp_path: Path):
    grey = np.zeros((16, 32), np.uint8)
    grey[:, :8], grey[:, 8:24], grey[:, 24:] = 255, 128, 255  # the middle is square
    write(tmp_path / "0.png", grey)
    image = read_images(tmp_path, GREY, None)["image"]
    np.testing.assert_allclose(image[..., 1:-1], 128 / 255, rtol=0, atol=1e-6)


LABELLED = {
    "a list": ({"labels.csv": "file,label\nb/x.png,5\nb/y.png,0\na/x.png,7\n"}, [7, 5, 0]),
    "a list as spreadsheets write it": (
        {"labels.csv": "\ufeffa/x.png,cat\r\nb/x.png,bird\r\nb/y.png,cat\r\n"},
        [1, 0, 1],
    ),
    "names in the model's order": ({"classes.txt": "b\na\nc\n"}, [1, 0, 0]),
}


@pytest.mark.parametrize("case", LABELLED)
def test_labels(classes: Path, case: str):
    files, expected = LABELLED[case]
    for name, content in files.items():
        (classes / name).write_text(content)
    assert read_images(classes, GREY, None)["labels"].tolist() == expected


def test_folders_named_by_numbers_are_those_classes(tmp_path: Path):
    for name in ("10", "2"):
        write(tmp_path / name / "0.png", pixels(0, 8, 8))
    assert read_images(tmp_path, GREY, None)["labels"].tolist() == [10, 2]


def _damaged(folder: Path) -> None:
    file = folder / "a/x.png"
    file.write_bytes(file.read_bytes()[:60])


FAULTS: dict[str, tuple[Callable[[Path], object], str]] = {
    "no images": (lambda d: [f.unlink() for f in d.glob("*/*.png")], r"holds no images \(.bmp, .jpeg"),
    "a damaged image": (_damaged, r"a/x.png: the image cannot be read"),
    "no image": (lambda d: (d / "a/x.png").write_bytes(b"text"), "a/x.png: the image cannot be read"),
    "16 bits": (
        lambda d: write(d / "a/x.png", pixels(0, 8, 8).astype(np.uint16)),
        "one channel of more than 8 bits",
    ),
    "beside the classes": (
        lambda d: write(d / "x.png", pixels(0, 8, 8)),
        "x.png: 1 image not in a sub-folder",
    ),
    "not in the list": (lambda d: (d / "labels.csv").write_text("a/x.png,1\n"), "2 images not in labels.csv"),
    "not in the folder": (
        lambda d: (d / "labels.csv").write_text("a/x.png,1\nb/x.png,1\nb/y.png,1\nb/z.png,1\n"),
        "b/z.png: no such image",
    ),
    "twice in the list": (
        lambda d: (d / "labels.csv").write_text("a/x.png,1\na/x.png,2\n"),
        "line 2: .* twice",
    ),
    "a line of the list": (
        lambda d: (d / "labels.csv").write_text("a/x.png 1\n"),
        "line 1: expected FILE,LABEL",
    ),
    "a list in another code": (lambda d: (d / "labels.csv").write_bytes(b"\xff\xfe,\0"), "no text in UTF-8"),
    "an unknown class": (lambda d: (d / "classes.txt").write_text("a\nc\n"), "has no line 'b'"),
}


@pytest.mark.parametrize("case", FAULTS)
def test_a_fault_names_the_file(classes: Path, case: str):
    change, message = FAULTS[case]
    change(classes)
    with pytest.raises(UsageError, match=message):
        read_images(classes, GREY, None)


SPECS = {
    "two inputs": ((*GREY, *COLOUR), "for a model with one input, but this one has image"),
    "tokens": (
        (TensorSpec("tokens", (1, 8), "int64"),),
        "int64.*default conversion of images; specify it by --preprocess",
    ),
    "either layout": ((TensorSpec("image", (1, 3, 8, 3), "float32"),), "no default conversion"),
}


@pytest.mark.parametrize("case", SPECS)
def test_an_input_that_is_no_image(classes: Path, case: str):
    specs, message = SPECS[case]
    with pytest.raises(UsageError, match=message):
        read_images(classes, specs, None)


def test_without_pillow_the_message_says_how_to_get_it(classes: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(
        EnvError, match=r"Pillow, which is not installed: pip install 'tvm-arm-ext\[images\]'"
    ):
        read_images(classes, GREY, None)


def test_samples_one_by_one():
    images, labels = digits.held_out()
    rows = [{"image": image, "labels": label} for image, label in zip(images[:3], labels, strict=False)]
    arrays = read_samples(iter(rows), lambda: GREY)
    np.testing.assert_array_equal(arrays["image"], images[:3])
    assert arrays["labels"].tolist() == labels[:3].tolist()
    for wrong in ([], [1, 2], [rows[0], {"labels": 1}]):
        with pytest.raises(
            UsageError, match=r"data: there are no samples|expected samples with the same names and shapes"
        ):
            read_samples(wrong, lambda: GREY)


@pytest.fixture
def drawn(tmp_path: Path) -> Path:
    """Held-out digits, as images in folders of their numbers."""
    images, labels = digits.held_out()
    for number, (image, label) in enumerate(zip(images[:10], labels, strict=False)):
        write(tmp_path / "drawn" / str(label) / f"{number}.png", np.round(image[0] * 255).astype(np.uint8))
    return tmp_path / "drawn"


def test_accuracy_is_that_of_the_arrays(drawn: Path):
    specs = (TensorSpec("image", (1, 1, 8, 8), "float32"),)
    models = digits.model_path("int8"), digits.model_path("fp32")
    by_folder, by_arrays = (
        arm_ext.accuracy(*models, data) for data in (drawn, read_images(drawn, specs, None))
    )
    assert by_folder == by_arrays
    assert by_folder.samples == 10
    assert by_folder.metric is not None
    assert by_folder.metric.name == "top1"
    assert by_folder.metric.source > 0.8


def test_quantize_calibrates_on_images(drawn: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    output = tmp_path / "int8.onnx"
    given = ["quantize", str(digits.model_path("fp32")), "--data", str(drawn), "-o", str(output)]
    assert cli.invoke(given) == 0
    assert "top1" in capsys.readouterr().out
    assert any(node.op_type == "DequantizeLinear" for node in onnx.load(output).graph.node)


def test_preprocess_is_for_images(tmp_path: Path):
    with pytest.raises(ArmExtError, match="preprocess is for a folder of images"):
        arm_ext.accuracy(
            digits.model_path(), digits.model_path("fp32"), digits.HELD_OUT, preprocess=tmp_path / "any.yaml"
        )


def test_quantize_of_compile_points_to_the_verb_that_takes_a_folder(drawn: Path, tmp_path: Path):
    with pytest.raises(UsageError, match=r"`quantize --data .*drawn` takes a folder of images"):
        arm_ext.compile(digits.model_path("fp32"), "host", tmp_path / "p", quantize=drawn)


def test_more_images_than_memory_holds_are_refused_before_they_are_read(
    classes: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(image_folder, "machine_bytes", lambda: 2000)
    with pytest.raises(UsageError, match=r"3 images are .* as image float32\[1, 1, 8, 8\]"):
        read_images(classes, GREY, None)


def test_labels_take_time_in_proportion_to_the_images():
    hashed = []

    class Counted(PosixPath):
        def __hash__(self) -> int:
            hashed.append(self)
            return super().__hash__()

    files = [Counted(f"/d/{k % 2}/{k}.png") for k in range(500)]
    labels = _labels(Path("/d"), files)
    assert labels is not None
    assert labels.tolist() == [0, 1] * 250
    assert len(hashed) < 20 * len(files)
