# SPDX-License-Identifier: Apache-2.0
"""The options of pre- and post-processing: `--preprocess FILE.yaml`, or the same as Python objects.

inputs:
  image:                               # an input of the model
    frame: [480, 640, 3]               # what comes in: u8, [height, width, channels], or with a batch in front
                                       # or frames: [[480, 640, 3], [720, 1280, 3]], to choose from
    steps:                             # in this order
      - crop: {size: [480, 480]}       # centred, or at: [top, left]
      - resize: {mode: linear}         # to the model's size, or size: [height, width]; linear or nearest
      - channels: [2, 1, 0]            # which of the frame's channels becomes which
      - normalize: {divide: 255, mean: [0.485, 0.456, 0.406], std: [0.229, 0.224, 0.225]}
      - quantize: {scale: 0.0186, zero_point: -14}      # for an input of int8 or uint8
outputs:
  scores:
    - dequantize: {scale: 0.1, zero_point: 3}
    - softmax: {axis: -1}
    - top_k: {k: 5}                    # or argmax: {axis: -1}
"""

import itertools
import math
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Literal, Self

import numpy as np
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, Strict, ValidationError, model_validator

from arm_ext.common.errors import UsageError

_NONE: Mapping[str, int] = MappingProxyType({})
_AXES = 3  # of a frame by itself
_MOST_FAULTS = 20  # maximum number of reported faults of a file, so that the first one stays on the screen

FLOAT = "float32"
QUANTIZED = ("int8", "uint8")

Where = tuple[int | str, ...]
"""The keys and places that lead to a value."""

Integer = Annotated[int, Strict()]
# No camera has frames with more samples, and bytes and offsets computed from such sizes stay far within 64 bits.
_MOST_SAMPLES = 1 << 31
Size = Annotated[int, Strict(), Field(gt=0, le=_MOST_SAMPLES)]
Index = Annotated[int, Strict(), Field(ge=0, le=_MOST_SAMPLES)]
Number = Annotated[float, Strict(), Field(allow_inf_nan=False)]
Positive = Annotated[float, Strict(), Field(gt=0, allow_inf_nan=False)]
Pair = Field(min_length=2, max_length=2)


def _small(frame: list[int]) -> list[int]:
    if math.prod(frame) > _MOST_SAMPLES:
        raise ValueError(f"a frame of {math.prod(frame):,} samples; at most {_MOST_SAMPLES:,} are supported")
    return frame


Frame = Annotated[list[Size], Field(min_length=3, max_length=4), AfterValidator(_small)]


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Crop(_Section):
    """A crop to `size` [height, width] with its corner at `at` [top, left]; by default centred, rounded down."""

    size: Annotated[list[Size], Pair]
    at: Annotated[list[Index], Pair] | None = None


class Resize(_Section):
    """A resize to `size` [height, width], by default the model's, as ONNX's Resize (half_pixel, no antialias).

    `linear` computes in binary32 and does not round back to u8; `nearest` is round_prefer_floor.
    """

    size: Annotated[list[Size], Pair] | None = None
    mode: Literal["linear", "nearest"] = "linear"


class Normalize(_Section):
    """Normalisation (x / divide - mean) / std, with one number for all channels or one per channel."""

    divide: Positive = 1.0
    mean: Number | Annotated[list[Number], Field(min_length=1)] = 0.0
    std: Positive | Annotated[list[Positive], Field(min_length=1)] = 1.0


class Quantization(_Section):
    """q = round(x / scale) + zero_point, rounded half to even and saturated; the type is the model's."""

    scale: Positive
    zero_point: Integer = 0


class Along(_Section):
    """A step along an axis, which counts from the end if it is negative."""

    axis: Integer = -1


class TopK(Along):
    """Values and indices of the `k` largest elements, sorted, as outputs NAME_values and NAME_indices (int64)."""

    k: Size


class _Step(_Section):
    @model_validator(mode="after")
    def _single(self) -> Self:
        keys = ", ".join(type(self).model_fields)
        if len(self.model_fields_set) != 1:
            raise ValueError(f"a step must have exactly one of the keys {keys}")
        if getattr(self, self.key) is None:
            raise ValueError(f"{self.key} has no value; write {{}} for its defaults")
        return self

    @property
    def key(self) -> str:
        """The key that names the step."""
        return next(iter(self.model_fields_set))


class InputStep(_Step):
    """One step before the model. `channels` has, for each channel of the result, the index of the frame's channel."""

    crop: Crop | None = None
    resize: Resize | None = None
    channels: Annotated[list[Index], Field(min_length=1)] | None = None
    normalize: Normalize | None = None
    quantize: Quantization | None = None


class OutputStep(_Step):
    """One step after the model."""

    dequantize: Quantization | None = None
    softmax: Along | None = None
    argmax: Along | None = None
    top_k: TopK | None = None


class Input(_Section):
    """A frame of u8, [height, width, channels] or [batch, height, width, channels], and its steps to a model input.

    A package with several shapes has `frames` instead, one for each shape in their order. `layout` is the model's, and
    only needed if its shape could be either.
    """

    frame: Frame | None = None
    frames: Annotated[list[Frame], Field(min_length=1)] | None = None
    layout: Literal["NCHW", "NHWC"] | None = None
    steps: list[InputStep] = []

    @model_validator(mode="after")
    def _framed(self) -> Self:
        if (self.frame is None) == (self.frames is None):
            raise ValueError(
                "expected `frame: [height, width, channels]`, or `frames:` with one frame for each shape"
            )
        return self


class Preprocess(_Section):
    """Pre- and post-processing of inputs and outputs by name; other inputs and outputs stay unchanged."""

    inputs: dict[str, Input] = {}
    outputs: dict[str, list[OutputStep]] = {}

    @property
    def several(self) -> dict[str, list[list[int]]]:
        """Input name → frames, for the inputs with one frame per shape."""
        return {name: given.frames for name, given in self.inputs.items() if given.frames is not None}

    def of_shape(self, position: int, samples: Mapping[str, int] = _NONE) -> Self:
        """Return the same steps, with the frames of one of a package's shapes.

        Args:
            position: Index of the shape, for inputs with one frame per shape.
            samples: Name of an input → number of frames that are given together, if --shape says so.

        Raises:
            UsageError: A frame of such an input has a number of its own.
        """
        inputs = {
            name: given.model_copy(update={"frame": _frame(name, given, position, samples), "frames": None})
            for name, given in self.inputs.items()
        }
        return self.model_copy(update={"inputs": inputs})


def _frame(name: str, given: Input, position: int, samples: Mapping[str, int]) -> list[int]:
    where: Where = ("inputs", name, "frame" if given.frames is None else "frames")
    frames = given.frames or [given.frame or []]
    frame = frames[0 if given.frames is None else position]
    if name not in samples:
        return frame
    batch, *sizes = frame if len(frame) > _AXES else (1, *frame)
    if batch != 1:
        raise fault(where, f"--shape says how many frames there are; leave {batch} out of {frame}")
    return [samples[name], *sizes]


def read_preprocess(given: Preprocess | str | Path | None) -> Preprocess | None:
    """Return options that are given as an object unchanged, and read others from a YAML file.

    Raises:
        UsageError: The file is missing or not YAML, or keys in it are unknown or have wrong values: all of them.
    """
    if given is None or isinstance(given, Preprocess):
        return given
    # Not imported above: this loads a YAML library, which only a compile with such a file needs.
    from arm_ext.common.yaml_file import read_mapping

    path = Path(given)
    data = read_mapping(path, "the keys inputs and outputs")
    try:
        return Preprocess.model_validate(data)
    except ValidationError as err:
        faults = dict.fromkeys(_told(one["loc"], one["type"], one["msg"]) for one in err.errors())
        told = [f"{path}: {one}" for one in itertools.islice(faults, _MOST_FAULTS)]
        if len(faults) > _MOST_FAULTS:
            told.append(f"{path}: and {len(faults) - _MOST_FAULTS:,} more faults")
        raise UsageError("\n".join(told)) from err


def _told(where: Where, kind: str, message: str) -> str:
    reason = "unknown key" if kind == "extra_forbidden" else message.removeprefix("Value error, ")
    return f"{_key(where)}: {reason[0].lower()}{reason[1:]}"


def fault(where: Where, reason: str) -> UsageError:
    """Return the error that names a key and why its value does not fit the model."""
    return UsageError(f"preprocess: {_key(where)}: {reason}")


def check_zero_point(quantization: Quantization, dtype: str, where: Where) -> None:
    """Refuse a zero point that the quantised type cannot hold.

    Raises:
        UsageError: The zero point is no value of the type.
    """
    limits = np.iinfo(dtype)
    if not limits.min <= quantization.zero_point <= limits.max:
        raise fault((*where, "zero_point"), f"{quantization.zero_point} is no {dtype}")


def _key(where: Where) -> str:
    """Return a key as text: "inputs.image.steps[0].crop"."""
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in where)
    return path.removeprefix(".")
