# SPDX-License-Identifier: Apache-2.0
"""Errors of one layer over samples, and textual explanations of the error that the layer itself causes."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from arm_ext.quantization.error_sums import ChannelSums, ErrorSums, error_of
from arm_ext.quantization.histogram import Histogram
from arm_ext.quantization.layers import Constant, QdqLayer, QuantizerConstants
from arm_ext.report.accuracy.record import (
    LOW_DB,
    SATURATED,
    ErrorHistogram,
    Errors,
    LayerAccuracy,
    ValueHistogram,
)

Array = npt.NDArray[Any]

# Rounding errors are spread evenly around 0, within half a step.
_SHIFT_STEPS = 0.3
# Maximum share of the levels that values use for a scale to count as too coarse: a ReLU in signed symmetric int8
# uses a half, and a range that is twice too wide halves that again.
_LEVELS_USED = 1 / 8
# Minimum share of nonzero values that become zero, to be reported.
_VANISHED = 0.3
# Signal-to-noise ratio above which a layer's own error needs no explanation.
_FAIR_DB = 30.0
# Minimum signal-to-noise ratio of a channel's weights, by bits: usual weights have at least 35 dB in 8 bits, 15 in
# 4.
_WEIGHTS_DB = {8: 20.0, 4: 8.0}
_PRUNED = 0.01
_GAIN = 0.05
# Minimum cosine of weights with the source's: quantised weights have at least 0.99, in 4 bits, too.
_ALIKE = 0.5
_BIAS_STEPS = 0.5
_WEIGHT_SHIFT_STEPS = 0.4
# Maximum ratio of the largest value to the root mean square; above this, most of the range serves a few values. For
# a million values of a normal distribution the ratio is 5.
_PEAK = 20.0
# Minimum share of the error's power that counts as a mean shift: the mean of a few random errors is not exactly 0
# either.
_SHIFT_PART = 0.25
# If a tensor's SQNR exceeds that of its readers' results by this much, the ranges of its channels differ strongly.
_CHANNELS_DB = 6.0


@dataclass(frozen=True)
class Values:
    """Values of a layer for one sample, in each link of the chain.

    Attributes:
        exact: Values in the source model.
        own: Values if this layer alone is quantised, fed with the source's values.
        fake: Values in the quantised model, computed in float.
        ours: The integers of the compiled model, dequantised.
        integers: The integers of the compiled model.
        others: Integers of onnxruntime, told to compute in integers.
    """

    exact: Array
    own: Array
    fake: Array
    ours: Array
    integers: Array | None = None
    others: Array | None = None


@dataclass
class LayerErrors:
    """Error sums of a layer over samples, and the explanations derived from them."""

    layer: QdqLayer
    own: ErrorSums = field(default_factory=ErrorSums)
    fake: ErrorSums = field(default_factory=ErrorSums)
    ours: ErrorSums = field(default_factory=ErrorSums)
    rounding: ErrorSums = field(default_factory=ErrorSums)
    values: Histogram = field(default_factory=lambda: Histogram.of(2))
    differences: Histogram = field(default_factory=lambda: Histogram.of(2))
    channels: ChannelSums = field(default_factory=ChannelSums)
    saturated: int = 0
    zeros: int = 0
    source_zeros: int = 0
    vanished: int = 0
    differing: int | None = None

    def add(self, values: Values) -> None:
        """Add the values of one sample to the sums of errors."""
        exact = values.exact
        own = exact if self.layer.moved else values.own
        self.own.add(own, exact)
        for sums, value in ((self.fake, values.fake), (self.ours, values.ours)):
            sums.add(value, exact)
        self.rounding.add(values.ours, values.fake)
        if self.layer.readers:
            self.channels.add(own, exact, self.layer.readers[0].axis)
        self.values.add(exact, values.ours)
        self.differences.add(_difference(own, exact), _difference(values.ours, exact))
        self.zeros += int(np.count_nonzero(values.ours == 0))
        self.source_zeros += int(np.count_nonzero(exact == 0))
        self.vanished += int(np.count_nonzero((values.own == 0) & (exact != 0)))
        if (quantizer := self._quantizer) is not None:
            least, greatest = quantizer.limits
            # Values within a step of the range, such as the 1 of a softmax with a maximum of 255 / 256, lose
            # little.
            step = self._step
            with np.errstate(over="ignore"):  # a limit beyond the range of float32 becomes infinite
                beyond = (exact < least - step) | (exact > greatest + step)
            self.saturated += int(np.count_nonzero(beyond))
        if values.integers is not None and values.others is not None:
            different = int(np.count_nonzero(values.integers != values.others))
            self.differing = (self.differing or 0) + different

    def record(self) -> LayerAccuracy:
        """Return the layer's measures and explanations as a record."""
        layer, quantizer = self.layer, self._quantizer
        count = max(self.own.count, 1)
        return LayerAccuracy(
            name=layer.name,
            operator=layer.operator,
            reader=layer.reader,
            nodes=layer.nodes,
            tensor=layer.source,
            type="float32" if quantizer is None else quantizer.zero_point.dtype.name,
            scale=None if quantizer is None else self._step,
            zero_point=None if quantizer is None else int(quantizer.zero_point.flat[0]),
            elements=self.own.count,
            own=errors(self.own),
            read_db=self._read()[0],
            fake=errors(self.fake),
            integers=errors(self.ours),
            rounding=errors(self.rounding),
            differing=self.differing,
            saturated=self.saturated / count,
            zeros=self.zeros / count,
            source_zeros=self.source_zeros / count,
            values=ValueHistogram(**_bins(self.values, "source")),
            differences=ErrorHistogram(**_bins(self.differences, "own")),
            causes=tuple(self._causes()),
        )

    @property
    def _quantizer(self) -> QuantizerConstants | None:
        return self.layer.quantizer or self.layer.dequantizer

    @property
    def _step(self) -> float:
        return 0.0 if self._quantizer is None else float(self._quantizer.scale.flat[0])

    def _causes(self) -> Iterator[str]:
        certain = list(self._mismatch())
        for constant in self.layer.constants:
            certain += _bias(constant, self._step) if constant.role == "bias" else _weights(constant)
        yield from certain
        if self._quantizer is None or not self.own.count or self.layer.moved:
            return
        yield from self._range(self._quantizer)
        yield from self._outliers()
        if not certain and self.own.sqnr_db < _FAIR_DB:
            yield from self._symptoms()

    def _mismatch(self) -> Iterator[str]:
        into, outof = self.layer.quantizer, self.layer.dequantizer
        if into is None or outof is None:
            return
        for what, one, other in (
            ("scale", into.scale, outof.scale),
            ("zero point", into.zero_point, outof.zero_point),
        ):
            if one.size == other.size == 1 and one.flat[0] != other.flat[0]:
                yield (
                    f"it is quantised with the {what} {one.flat[0]:.6g} and dequantised with {other.flat[0]:.6g}"
                )

    def _range(self, quantizer: QuantizerConstants) -> Iterator[str]:
        count, step = self.own.count, self._step
        share = self.saturated / count
        if share > SATURATED:
            limits = "{:.4g} to {:.4g}".format(*quantizer.limits)
            yield (
                f"{percent(share)} of its values saturate: the scale is too small for {self.own.least:.4g} to "
                f"{self.own.greatest:.4g}, or the zero point is wrong; it holds {limits}"
            )
        if self.own.sqnr_db >= _FAIR_DB:
            return
        span = self.own.greatest - self.own.least
        used = round(span / step) + 1 if step else 0
        if span > 0 and used < _LEVELS_USED * quantizer.levels:
            yield (
                f"its values use {used} of {quantizer.levels} levels: the scale is {quantizer.levels / used:.0f} "
                "times too large"
            )

    def _read(self) -> tuple[float | None, str]:
        """Return the lowest SQNR to which this layer's error leads in a node that reads it, and that node's name."""
        found = (
            (round(self.channels.sqnr_db(reader.power), 2), reader.name) for reader in self.layer.readers
        )
        return min(found, default=(None, ""))

    def _outliers(self) -> Iterator[str]:
        """Yield the name of a channel whose large values leave too little of the range to other channels."""
        read_db, reader = self._read()
        if read_db is None or read_db >= LOW_DB or read_db > self.own.sqnr_db - _CHANNELS_DB:
            return
        sizes = np.sqrt(self.channels.signal)
        most, middle = int(np.argmax(sizes)), float(np.median(sizes[sizes > 0]))
        yield (
            f"{reader}, which reads it, is left with {read_db:.1f} dB: channel {most} is {sizes[most] / middle:.0f} "
            "times as large as the median channel, and takes the range from the others"
        )

    def _symptoms(self) -> Iterator[str]:
        """Yield symptoms; they are consequences of causes, and say less than the causes."""
        count, step = self.own.count, self._step
        shift = self.own.mean_shift / step if step else 0.0
        part = count * self.own.mean_shift**2 / self.own.noise if self.own.noise else 0.0
        if abs(shift) > _SHIFT_STEPS and part > _SHIFT_PART and self.saturated <= SATURATED * count:
            yield f"its values are shifted by {shift:+.2f} steps in the mean: a zero point or a bias is off"
        lost = self.vanished / max(count - self.source_zeros, 1)
        if lost > _VANISHED:
            yield f"{percent(lost)} of its values that are not zero become zero: the scale is too coarse for them"
        largest = max(abs(self.own.least), abs(self.own.greatest))
        peak = largest / (self.own.signal / count) ** 0.5 if self.own.signal else 0.0
        if peak > _PEAK and self.own.sqnr_db < LOW_DB:
            yield f"its largest value is {peak:.0f} times its root mean square: few values take most of the range"


def _weights(constant: Constant) -> Iterator[str]:
    quantizer, source = constant.quantizer, constant.source
    # A weight that rounds to 0 is at most half a step; pruned weights are larger.
    pruned = float(np.mean((constant.value == 0) & (np.abs(source) > float(np.max(quantizer.scale)))))
    if pruned > _PRUNED:
        yield f"{percent(pruned)} of its weights are 0 that are not small in the source: they were pruned"
        return
    whole = error_of(constant.value, source)
    if whole.cosine < _ALIKE and source.size > 1:
        yield (
            f"its weights have a cosine of {whole.cosine:.2f} with the source's: they are in another order, or of "
            "another training"
        )
        return
    # Channels are along the quantiser's axis or, if there is one scale, along the first axis, as in a convolution.
    axis = quantizer.axis if quantizer.scale.size > 1 else 0 if source.ndim > 2 else source.ndim - 1
    channels = range(source.shape[axis]) if source.ndim else ()
    pairs = [(constant.value.take(i, axis), source.take(i, axis)) for i in channels]
    found = [(error_of(*pair), i) for i, pair in enumerate(pairs) if np.any(pair[1])]
    # The median over channels shows a fault of most channels; a single wrong channel is named below.
    factor = float(np.median([sums.gain for sums, _ in found])) if found else whole.gain
    usual = float(np.median([sums.mean_shift for sums, _ in found])) if found else whole.mean_shift
    if factor and abs(factor - 1) > _GAIN:
        yield f"its weights come out {factor:.3g} times the source's: their scale is wrong"
        return
    step = float(np.mean(quantizer.scale))
    shift = float(np.mean((constant.value - source).astype(np.float64))) / step if step else 0.0
    if min(abs(shift), abs(usual) / (step or 1.0)) > _WEIGHT_SHIFT_STEPS:
        yield f"its weights are shifted by {shift:+.2f} steps in the mean: their zero point is off"
        return
    worst, channel = min(((sums.sqnr_db, i) for sums, i in found), default=(np.inf, 0))
    if worst >= _WEIGHTS_DB.get(quantizer.bits, 20.0):
        return
    largest = [float(np.max(np.abs(pair[1]))) for pair in pairs]
    where = f"channel {channel} of its weights keeps {worst:.1f} dB"
    if quantizer.scale.size == 1 and largest[channel] < max(largest) / 8:
        huge = int(np.argmax(largest))
        yield (
            f"{where}: one scale for all {len(pairs)} channels, and channel {huge} is "
            f"{largest[huge] / max(largest[channel], 1e-30):.0f} times as large; quantise them per channel"
        )
    else:
        yield f"{where}: their scale does not fit them, or they are not the source's"


def _bias(constant: Constant, step: float) -> Iterator[str]:
    difference = np.abs(constant.value.astype(np.float64) - constant.source)
    if step and difference.size and float(np.max(difference)) > _BIAS_STEPS * step:
        at = int(np.argmax(difference))
        yield (
            f"its bias of channel {at} is {constant.value.flat[at]:.4g}, the source's {constant.source.flat[at]:.4g}: "
            f"off by {difference.flat[at] / step:.1f} steps of the output"
        )


def errors(sums: ErrorSums) -> Errors:
    """Return error sums as the measures of a report."""
    most = float(np.finfo(np.float32).max)
    return Errors(
        sqnr_db=round(sums.sqnr_db, 2),
        cosine=round(sums.cosine, 8),
        max_error=_short(min(sums.gap, most)),
        mean_error=_short(min(sums.mean, most)),
        mean_shift=_short(sums.mean_shift),
    )


def _difference(value: Array, exact: Array) -> Array:
    with np.errstate(invalid="ignore"):  # differences of infinities are NaN, which histograms ignore
        return np.asarray(value.astype(np.float64) - exact.astype(np.float64))


def _bins(histogram: Histogram, first: str) -> dict[str, Any]:
    """Return the fields of a histogram record.

    `first` is the name of the first series, and the second is our integers.
    """
    one, other = histogram.counts()
    return {"start": histogram.start, "width": histogram.width, first: one, "integers": other}


def percent(share: float) -> str:
    """Return a share as a percentage with two digits."""
    return f"{100 * share:.2g} %" if share < 0.995 else "100 %"


def _short(value: float) -> float:
    return float(f"{value:.6g}")
