# SPDX-License-Identifier: Apache-2.0
"""Translation of a `Preprocess`'s pre-processing steps into operations; steps that do not fit the model are errors.

A frame keeps its channels last until the first step that computes. There it gets the model's layout, so that arithmetic
is next to the convolution that it may be folded into.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from arm_ext.frontends.common.imported import TensorSpec
from arm_ext.frontends.preprocess.options import (
    FLOAT,
    QUANTIZED,
    Crop,
    Input,
    InputStep,
    Normalize,
    Quantization,
    Resize,
    Where,
    check_zero_point,
    fault,
)
from arm_ext.frontends.preprocess.steps import (
    Affine,
    Cast,
    Dequantize,
    Gather,
    Interpolate,
    Operation,
    Permute,
    Quantize,
    Reshape,
    SliceAxis,
)

_FRAME = "NHWC"
_FRAME_TYPE = "uint8"


@dataclass(frozen=True)
class OperationChain:
    """A sequence of operations on one tensor."""

    source: TensorSpec
    operations: tuple[Operation, ...]
    result: TensorSpec


def plan_input(spec: TensorSpec, given: Input, *, quantized: bool) -> OperationChain:
    """Return the operations that convert a frame to the model's input.

    Args:
        spec: The model's input.
        given: The frame and its steps.
        quantized: Whether the model computes in integers: then the frame is a quantised tensor, too, so that what is
            computed of each of its values becomes one table.

    Raises:
        UsageError: The steps do not fit the frame, or their result the input.
    """
    if given.frame is None:
        raise fault(
            ("inputs", spec.name, "frames"), "here there is one shape; expected frame: with one frame"
        )
    plan = _Frame(spec, given, given.frame, Dequantize(1.0, 0) if quantized else Cast(FLOAT))
    for number, step in enumerate(given.steps):
        plan.step(step, ("inputs", spec.name, "steps", number, step.key))
    plan.finish()
    return OperationChain(
        TensorSpec(spec.name, tuple(given.frame), _FRAME_TYPE), tuple(plan.operations), spec
    )


class _Frame:
    """Shape, layout and operations of a frame while steps are added."""

    def __init__(self, spec: TensorSpec, given: Input, frame: list[int], to_float: Operation) -> None:
        self._spec = spec
        self._to_float = to_float
        self._where: Where = ("inputs", spec.name)
        if len(spec.shape) != len(_FRAME):
            raise fault(
                self._where, f"the model's input is {spec.describe()}; a frame needs one of four axes"
            )
        if spec.dtype not in (FLOAT, *QUANTIZED):
            raise fault(
                self._where, f"the model's input is {spec.describe()}; expected float32, int8 or uint8"
            )
        batch, *rest = frame if len(frame) == len(_FRAME) else (1, *frame)
        self._batch = batch
        self._size = dict(zip("HWC", rest, strict=True))
        self._dtype, self._axes = _FRAME_TYPE, _FRAME
        self._layout = self._model_layout(given)
        self.operations: list[Operation] = []
        if len(frame) != len(_FRAME):
            self.operations.append(Reshape((batch, *rest)))

    def _model_layout(self, given: Input) -> str:
        channels = self._size["C"]
        for step in given.steps:
            channels = channels if step.channels is None else len(step.channels)
        layouts = ("NCHW", "NHWC") if given.layout is None else (given.layout,)
        fits = [layout for layout in layouts if self._spec.shape[layout.index("C")] == channels]
        if not fits:
            raise fault(
                self._where,
                f"its steps give {channels} channels, which do not fit the model's {self._spec.describe()} as "
                f"{' or '.join(layouts)}",
            )
        if len(fits) > 1:
            raise fault(
                (*self._where, "layout"), f"{self._spec.describe()} may be {' or '.join(fits)}; say which"
            )
        return fits[0]

    def step(self, step: InputStep, where: Where) -> None:
        """Add a step."""
        match getattr(step, step.key):
            case Crop() as crop:
                self._crop(crop, where)
            case Resize() as resize:
                self._resize(resize)
            case Normalize() as normalize:
                self._normalize(normalize, where)
            case Quantization() as quantization:
                self._quantize(quantization, where)
            case list() as channels:
                self._pick(channels, where)

    def finish(self) -> None:
        """Convert the frame to the model's layout and type."""
        if self._dtype != self._spec.dtype:
            if self._spec.dtype != FLOAT:
                raise fault(
                    self._where,
                    f"the model's input is {self._spec.describe()}, and the steps give {self._dtype}; end them with "
                    "quantize: {scale: …, zero_point: …}",
                )
            self._compute()
        self._lay_out()
        sizes = self._size | {"N": self._batch}
        shape = tuple(sizes[axis] for axis in self._axes)
        if shape != self._spec.shape:
            raise fault(
                self._where, f"its steps give {list(shape)}; the model's input is {self._spec.describe()}"
            )

    def _crop(self, crop: Crop, where: Where) -> None:
        frame = [self._size[axis] for axis in "HW"]
        at = crop.at or [max(size - wanted, 0) // 2 for size, wanted in zip(frame, crop.size, strict=True)]
        if any(a + wanted > size for a, wanted, size in zip(at, crop.size, frame, strict=True)):
            raise fault(where, f"{crop.size} at {at} leaves the frame, which is {frame} here")
        for axis, begin, wanted in zip("HW", at, crop.size, strict=True):
            if wanted != self._size[axis]:
                self.operations.append(SliceAxis(self._axes.index(axis), begin, wanted))
                self._size[axis] = wanted

    def _resize(self, resize: Resize) -> None:
        model = [self._spec.shape[self._layout.index(axis)] for axis in "HW"]
        for axis, wanted in zip("HW", resize.size or model, strict=True):
            size, place = self._size[axis], self._axes.index(axis)
            if wanted == size:
                continue
            if resize.mode == "nearest":
                self.operations.append(Gather.nearest(place, size, wanted))
            else:
                self.operations.append(Interpolate(place, size, wanted))
                self._dtype = FLOAT
            self._size[axis] = wanted

    def _pick(self, channels: list[int], where: Where) -> None:
        if max(channels) >= self._size["C"]:
            raise fault(where, f"there is no channel {max(channels)}; the frame has {self._size['C']} here")
        if channels != list(range(self._size["C"])):
            self.operations.append(Gather(self._axes.index("C"), tuple(channels)))
        self._size["C"] = len(channels)

    def _normalize(self, normalize: Normalize, where: Where) -> None:
        self._compute()
        with np.errstate(over="ignore"):
            factor = 1 / (normalize.divide * self._channels(normalize.std, (*where, "std")))
            shift = normalize.divide * self._channels(normalize.mean, (*where, "mean"))
            affine = Affine(shift.astype(np.float32), factor.astype(np.float32))
        if not (np.isfinite(affine.shift).all() and np.isfinite(affine.factor).all()):
            raise fault(where, "divide, mean and std leave float32, in which they are computed")
        self.operations.append(affine)

    def _channels(self, given: float | list[float], where: Where) -> npt.NDArray[np.float64]:
        """Return one number, or one number per channel, in a shape that broadcasts to the frame."""
        values = np.array(given, np.float64)
        if values.ndim and len(values) != self._size["C"]:
            raise fault(where, f"{len(values)} numbers for {self._size['C']} channels")
        if (values == values.flat[0]).all():
            return np.array(values.flat[0])
        return values.reshape([-1 if axis == "C" else 1 for axis in self._axes])

    def _quantize(self, quantization: Quantization, where: Where) -> None:
        if self._spec.dtype not in QUANTIZED:
            raise fault(where, f"the model's input is {self._spec.describe()}; leave this step out")
        check_zero_point(quantization, self._spec.dtype, where)
        self._compute()
        self.operations.append(Quantize(quantization.scale, quantization.zero_point, self._spec.dtype))
        self._dtype = self._spec.dtype

    def _compute(self) -> None:
        self._lay_out()
        self._cast()

    def _cast(self) -> None:
        if self._dtype != FLOAT:
            self.operations.append(self._to_float)
            self._dtype = FLOAT

    def _lay_out(self) -> None:
        if self._axes != self._layout:
            self.operations.append(Permute(tuple(self._axes.index(axis) for axis in self._layout)))
            self._axes = self._layout
