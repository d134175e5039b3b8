# SPDX-License-Identifier: Apache-2.0
"""Samples and labels of a folder of images, for a model with one input that is an image.

    DIR/cat/1.png  DIR/dog/2.jpg         a sub-folder for each class
    DIR/1.png  DIR/2.jpg  labels.csv     or lines of FILE,LABEL
    DIR/classes.txt                      the classes by name, in the order of the model's scores; else alphabetical

An image of another size than the frame is scaled to cover it, and what then stands out on two sides is cut off.
"""

import csv
import io
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from arm_ext.common.errors import UsageError
from arm_ext.common.faults import why
from arm_ext.common.text import counted
from arm_ext.frontends.common.imported import TensorSpec
from arm_ext.frontends.common.limits import machine_bytes, size_text
from arm_ext.frontends.load import loading
from arm_ext.frontends.preprocess.options import FLOAT, Input, InputStep, Normalize, Preprocess, Quantization
from arm_ext.frontends.preprocess.preprocess_plan import OperationChain, plan_input
from arm_ext.frontends.preprocess.wrap import check_names
from arm_ext.quantization.metrics import LABELS

Array = npt.NDArray[Any]

ENDINGS = (".bmp", ".jpeg", ".jpg", ".png")
LABELS_CSV, CLASSES_TXT = "labels.csv", "classes.txt"

# Number of channels of an image → Pillow's mode with 8 bits per channel.
_MODES = {1: "L", 3: "RGB", 4: "RGBA"}
# Share of the machine's memory that samples may use; while they are stacked, there are two copies.
_SHARE_OF_MEMORY = 0.3
# Pillow's modes with one channel of more than 8 bits; converting them to 8 bits would clip values.
_WIDE_MODES = ("I", "F")
# Maximum number of digits of a folder's name that is a class number.
_MOST_DIGITS = 9


def read_images(
    folder: Path, inputs: Sequence[TensorSpec], preprocess: Preprocess | None
) -> dict[str, Array]:
    """Return the samples of a folder by the input's name, and "labels" if there are any.

    Args:
        folder: Folder with image files, known by their extensions.
        inputs: Inputs of the model, which must have exactly one.
        preprocess: Steps from a frame to the input, as the package has them; by default float32 is 0 to 1, uint8 the
            bytes as they are, and int8 those less 128.

    Raises:
        UsageError: There are no images, or one cannot be read; labels are wrong; the model's input is no image, or the
            steps do not fit it.
        EnvError: Pillow is not installed.
    """
    chain = _chain(inputs, preprocess, folder)
    files = _images(folder)
    labels = _labels(folder, files)
    _refuse_too_many(folder, len(files), chain.result)
    arrays = {chain.result.name: np.concatenate([_sample(file, chain) for file in files])}
    return arrays if labels is None else {**arrays, LABELS: labels}


def _refuse_too_many(folder: Path, count: int, spec: TensorSpec) -> None:
    needed = count * math.prod(spec.shape) * np.dtype(spec.dtype).itemsize
    if needed > machine_bytes() * _SHARE_OF_MEMORY:
        raise UsageError(
            f"--data {folder}: {count:,} images are {size_text(needed)} as {spec.describe()}, and this machine has "
            f"{size_text(machine_bytes())}; use fewer images of each class"
        )


def _chain(inputs: Sequence[TensorSpec], preprocess: Preprocess | None, folder: Path) -> OperationChain:
    """Return the operations that convert an image to the model's input."""
    if len(inputs) != 1:
        named = ", ".join(spec.describe() for spec in inputs)
        raise UsageError(
            f"--data {folder}: images are for a model with one input, but this one has {named}; write an .npz with "
            "an array for each input"
        )
    (spec,) = inputs
    if preprocess is None:
        given = _default(spec, folder)
    else:
        check_names("inputs", preprocess.inputs, inputs)
        if spec.name not in preprocess.inputs:
            raise UsageError(f"--preprocess: has no inputs.{spec.name}, which the images of {folder} need")
        given = preprocess.inputs[spec.name]
    return plan_input(spec, given, quantized=False)


def _default(spec: TensorSpec, folder: Path) -> Input:
    """Return default steps from an image of the input's size to the value range that is usual for the input's dtype."""
    steps = {
        FLOAT: [InputStep(normalize=Normalize(divide=255))],
        "uint8": [],
        "int8": [InputStep(quantize=Quantization(scale=1, zero_point=-128))],
    }
    layouts = [] if len(spec.shape) != 4 else ["NCHW", "NHWC"]
    fits = [layout for layout in layouts if spec.shape[layout.index("C")] in _MODES]
    if len(fits) != 1 or spec.dtype not in steps:
        raise UsageError(
            f"--data {folder}: the model's input is {spec.describe()}, for which there is no default conversion "
            "of images; specify it by --preprocess, or write an .npz"
        )
    layout = fits[0]
    frame = [spec.shape[layout.index(axis)] for axis in "HWC"]
    return Input(frame=frame, steps=steps[spec.dtype], layout="NCHW" if layout == "NCHW" else "NHWC")


def _images(folder: Path) -> list[Path]:
    """Return the images of the folder and its sub-folders, sorted by name, without hidden ones."""
    found = sorted(
        file
        for depth in ("*", "*/*")
        for file in folder.glob(depth)
        if file.suffix.lower() in ENDINGS
        and not any(part.startswith(".") for part in file.relative_to(folder).parts)
    )
    if not found:
        raise UsageError(
            f"--data {folder}: holds no images ({', '.join(ENDINGS)}); expected images in a sub-folder for each "
            f"class, or next to {LABELS_CSV}"
        )
    return found


def _sample(file: Path, chain: OperationChain) -> Array:
    """Return the model's input for one image, with an axis for samples."""
    frame = chain.source.shape
    if len(frame) == 4 and frame[0] != 1:
        raise UsageError(f"--preprocess: a frame has {frame[0]} images; remove {frame[0]} from {list(frame)}")
    height, width, channels = frame[-3:]
    if channels not in _MODES:
        raise UsageError(
            f"--preprocess: a frame has {channels} channels; images have {', '.join(map(str, _MODES))}"
        )
    value = _pixels(file, (width, height), _MODES[channels]).reshape(frame)
    for operation in chain.operations:
        value = operation.compute(value)
    return value


def _pixels(file: Path, size: tuple[int, int], mode: str) -> Array:
    with loading("PIL", "Images are read by Pillow, which", "pip install 'tvm-arm-ext[images]'"):
        from PIL import Image, ImageOps
    if not file.is_file():  # opening a named pipe would block
        raise UsageError(f"{file}: is not a file; expected an image")
    try:
        with Image.open(file) as image:
            wide, pixels = image.mode.startswith(_WIDE_MODES), image.convert(mode)
            if pixels.size != size:
                pixels = ImageOps.fit(pixels, size, Image.Resampling.BILINEAR)
    # Pillow's readers raise exceptions without a common class for unexpected contents.
    except Exception as err:
        raise UsageError(f"{file}: the image cannot be read ({type(err).__name__}: {err})") from err
    if wide:
        raise UsageError(f"{file}: has one channel of more than 8 bits; expected 8 bits per channel")
    return np.asarray(pixels, np.uint8)


def _labels(folder: Path, files: Sequence[Path]) -> Array | None:
    """Return the class number of each image; None if there are neither sub-folders nor a list of labels."""
    table = folder / LABELS_CSV
    grouped = {file: file.parent.name for file in files if file.parent != folder}
    given = _table(table) if table.exists() else grouped
    if not given and not table.exists():
        return None
    if left := [file for file in files if file not in given]:
        where = LABELS_CSV if table.exists() else "a sub-folder, which names the class of its images"
        raise UsageError(f"{left[0]}: {counted(len(left), 'image')} not in {where}")
    known = set(files)
    if absent := [file for file in given if file not in known]:
        raise UsageError(f"{table}: {absent[0].relative_to(folder)}: no such image in {folder}")
    numbers = _numbers(sorted(set(given.values())), folder)
    return np.array([numbers[given[file]] for file in files], np.int64)


def _table(table: Path) -> dict[Path, str]:
    """Return the label of each image that a list of labels names."""
    found: dict[Path, str] = {}
    for number, row in enumerate(csv.reader(io.StringIO(_read(table))), start=1):
        cells = [cell.strip() for cell in row]
        if not any(cells) or (number == 1 and cells[-1].lower() == "label"):
            continue
        if len(cells) != 2 or not all(cells):
            raise UsageError(f"{table}, line {number}: expected FILE,LABEL, found {','.join(row)!r}")
        file = table.parent / cells[0]
        if file in found:
            raise UsageError(f"{table}, line {number}: {cells[0]} occurs twice")
        found[file] = cells[1]
    return found


def _numbers(labels: Sequence[str], folder: Path) -> dict[str, int]:
    """Return each class's number: its name if numeric, else its line in the class list, else its alphabetical rank."""
    listed = folder / CLASSES_TXT
    if listed.is_file():
        classes = [line.strip() for line in _read(listed).splitlines() if line.strip()]
        if unknown := [label for label in labels if label not in classes]:
            raise UsageError(f"{listed}: has no line {unknown[0]!r}, but {folder} has this label")
        return {label: classes.index(label) for label in labels}
    if all(label.isdecimal() and len(label) <= _MOST_DIGITS for label in labels):
        return {label: int(label) for label in labels}
    return {label: number for number, label in enumerate(labels)}


def _read(file: Path) -> str:
    if not file.is_file():  # opening a named pipe would block
        raise UsageError(f"{file}: is not a file; expected text")
    try:
        return file.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as err:
        reason = why(err, file) if isinstance(err, OSError) else f"{file}: no text in UTF-8 ({err.reason})"
        raise UsageError(reason) from err
