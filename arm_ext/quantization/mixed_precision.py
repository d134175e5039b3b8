# SPDX-License-Identifier: Apache-2.0
"""Search for each layer's precision so that a metric of a quantised model is within a bound: most int8, or cheapest.

1. Each layer is quantised alone, all others in float: its noise at the outputs.
2. For int16, float16 and float32, in the order of noise, or of noise a cycle: the shortest prefix that holds
   the bound when it is raised to that precision, by bisection.
3. Layers of the two cheapest prefixes go back to lower precisions one by one, as long as the bound holds.

Every model is computed by the source's runtime, in float between quantise and dequantise, in child processes, one for
each core. How many there are changes nothing about the result.
"""

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias, get_args

import numpy as np
import onnx

from arm_ext.common.errors import ModelError
from arm_ext.common.text import told_apart
from arm_ext.frontends.common.child_process import DiedError, Pool
from arm_ext.quantization.error_sums import error_of
from arm_ext.quantization.float_layers import IntegerLayer
from arm_ext.quantization.metrics import Metric, Outputs, stacked
from arm_ext.quantization.session import TensorSession
from arm_ext.quantization.steps import Feed

Precision = Literal["int16", "float16", "float32"]
"""Precision of a layer above int8: 16-bit activations with 8-bit weights, or float of 16 or 32 bits."""

Model: TypeAlias = Any
"""A quantised model: ONNX in QDQ form, or a program of PyTorch's."""

Infer = Callable[[Feed], Feed]
"""Function from the inputs of a sample, by name, to the outputs, by name."""

PRECISIONS: tuple[Precision, ...] = get_args(Precision)

Raised = frozenset[tuple[str, Precision]]
"""Layers that are not in int8, with their precisions."""


class PrecisionBuilder(Protocol):
    """Builds the quantised model with some source nodes in a higher precision and all others in int8."""

    def __call__(self, *, keep_float: Sequence[str], int16: Sequence[str], float16: Sequence[str]) -> Model:
        """Return the model with these source nodes in float32, int16 and float16."""


_SEEN = 32
"""Number of samples by which the noise of a layer is estimated, spread evenly; the metric is of all samples."""

_TINY = 1e-30
"""Stands in for the power of outputs that are all zeros."""

_FRONT = 8
"""Lengths of prefixes that are measured for a front, spread evenly."""

_SHORTENED = 2
"""Number of prefixes whose layers are lowered; of YOLO and MobileNetV2 the other prefixes ended in costlier models."""

_AHEAD = 2
"""Number of layers whose lower precisions are measured at the same time; if one is accepted, the next are repeated."""

_PROCESSES = 4
"""Largest number of child processes, each of which holds a model of its own."""

_Job = tuple["Raised", bool]
"""A measurement: the layers above int8, and whether to measure the noise instead of the metric."""


@dataclass(frozen=True)
class Trial:
    """A measured model: its layers above int8, and its metric.

    Attributes:
        raised: The layers above int8.
        metric: Metric of the model.
        drop: How much worse the metric is than the float model's.
        holds: Whether the bound holds.
    """

    raised: Raised
    metric: float
    drop: float
    holds: bool

    def at(self, precision: Precision) -> frozenset[str]:
        """Return the names of the layers in a precision."""
        return frozenset(name for name, each in self.raised if each == precision)


@dataclass
class Judge:
    """Measures quantised models against the float model on the same samples.

    Attributes:
        name: Name of the model, for messages.
        outputs: Names of the outputs.
        source: Computes the float model.
        opened: Returns what computes a quantised model.
        feeds: Samples to compare on, with the states that the float model's step starts from.
        metric: Metric that is measured.
        holds: Whether a metric and its drop from the float model are good enough.
        states: Name of an input → the output that is its next value; samples are consecutive steps then.
        prepare: Called once in each child process that measures models.
    """

    name: str
    outputs: Sequence[str]
    source: Infer
    opened: Callable[[Model], Infer]
    feeds: Sequence[Feed]
    metric: Metric
    holds: Callable[[float, float], bool]
    states: Mapping[str, str] = field(default_factory=dict)
    prepare: Callable[[], None] = lambda: None
    exact: Outputs = field(init=False)
    reached: float = field(init=False)

    def __post_init__(self) -> None:
        self._names = [n for n in self.outputs if n not in self.states.values()] or list(self.outputs)
        self._seen = sorted(
            {round(place) for place in np.linspace(0, len(self.feeds) - 1, min(len(self.feeds), _SEEN))}
        )
        self.exact = self._outputs(self.source)
        self.reached = self.metric(self.exact, self.exact)

    @classmethod
    def of_onnx(
        cls,
        name: str,
        source: onnx.ModelProto,
        feeds: Sequence[Feed],
        metric: Metric,
        holds: Callable[[float, float], bool],
        states: Mapping[str, str] | None = None,
    ) -> "Judge":
        """Return a judge for ONNX models, run in onnxruntime; `source` is the float model."""
        outputs = [value.name for value in source.graph.output]

        def opened(model: onnx.ModelProto) -> Infer:
            return TensorSession(model, name, outputs)

        return cls(name, outputs, opened(source), opened, feeds, metric, holds, states or {})

    def trial(self, model: Model, raised: Raised) -> Trial:
        """Measure the metric of a model on all samples."""
        value = self.metric(self._outputs(self.opened(model)), self.exact)
        drop = self.metric.drop(value, self.reached)
        return Trial(raised, value, drop, self.holds(value, drop))

    def noise(self, model: Model) -> float:
        """Return the sum of `noises`."""
        return sum(self.noises(model))

    def noises(self, model: Model) -> list[float]:
        """Return the power of each output's error divided by the power of the float model's output."""
        ours = self._outputs(self.opened(model), self._seen)
        found = [error_of(ours[name], self.exact[name][self._seen]) for name in self._names]
        return [each.noise / max(each.signal, _TINY) for each in found]

    def _outputs(self, infer: Infer, places: Sequence[int] | None = None) -> Outputs:
        """Return the outputs for all samples, as consecutive steps; or for `places`, with the states in the feeds."""
        rows: list[Feed] = []
        for place in range(len(self.feeds)) if places is None else places:
            own = places is None and rows
            before = {name: rows[-1][output] for name, output in self.states.items()} if own else {}
            rows.append(infer(self.feeds[place] | before))
        return stacked(self._names, [[row[name] for name in self._names] for row in rows])


def built(
    units: Sequence[IntegerLayer], build: PrecisionBuilder, raised: Collection[tuple[str, Precision]]
) -> Model:
    """Return the model with some layers above int8."""
    on: dict[Precision, list[str]] = {
        precision: [node for unit in units if (unit.name, precision) in raised for node in unit.nodes]
        for precision in PRECISIONS
    }
    return build(keep_float=on["float32"], int16=on["int16"], float16=on["float16"])


@dataclass
class Search:
    """The search for a choice of precisions, and the models that it has measured.

    Attributes:
        units: Layers that can be above int8.
        build: Makes the models.
        judge: Measures the models.
        cycles: Precision → layer → additional cycles there; None to look for the fewest layers above int8.
        precisions: Precision above int8 → layers that can have it, the least precise first; float32 all can.
        trials: Layers above int8 → what was measured.
        noises: Layer → noise at the outputs if this layer alone is quantised.
        complete: Whether the search came to its end.
    """

    units: Sequence[IntegerLayer]
    build: PrecisionBuilder
    judge: Judge
    cycles: Mapping[Precision, Mapping[str, float]] | None = None
    precisions: Mapping[Precision, Collection[str]] | None = None
    trials: dict[Raised, Trial] = field(default_factory=dict)
    noises: dict[str, float] = field(default_factory=dict)
    complete: bool = False
    _pool: Pool[_Job, Any] | None = None

    def __post_init__(self) -> None:
        names = [unit.name for unit in self.units]
        self._precisions: Mapping[Precision, Collection[str]] = (
            dict.fromkeys(PRECISIONS, names) if self.precisions is None else self.precisions
        )

    def run(self) -> Trial:
        """Return the choice within the bound that has the fewest layers or cycles; the best so far when interrupted.

        Raises:
            ModelError: The bound does not hold with all layers in float.
        """
        everything: Raised = frozenset((unit.name, "float32") for unit in self.units)
        self._trial(frozenset())
        if not self._trial(everything).holds:
            reached, source = told_apart((self.trials[everything].metric, self.judge.reached))
            raise ModelError(
                f"{self.judge.name}: the bound is missed even with all {len(everything)} layers in float, where the "
                f"metric is {reached}, and in the float model {source}; ask for less"
            )
        try:
            if not self.trials[frozenset()].holds or self.cycles is not None:
                self._search(everything)
            self.complete = True
        except KeyboardInterrupt:  # what there is, is kept
            pass
        return min((each for each in self.trials.values() if each.holds), key=self.price)

    def price(self, trial: Trial) -> tuple[float, int, int]:
        """Return a choice's estimated cost, its number of layers above int8, and its number of float layers."""
        extra = self.cycles
        cost = sum(extra[precision][name] for name, precision in trial.raised) if extra else 0.0
        return cost, len(trial.raised), len(trial.at("float32"))

    def front(self) -> list[Trial]:
        """Return the Pareto front of metric and price, the cheapest choice first."""
        found: list[Trial] = []
        for trial in sorted(self.trials.values(), key=lambda each: (self.price(each), not each.holds)):
            if not found or trial.drop < found[-1].drop:
                found.append(trial)
        return found

    def _search(self, everything: Raised) -> None:
        with self._opened_pool():
            others = [everything - {(unit.name, "float32")} for unit in self.units]
            noises = self._measured([(each, True) for each in others])
            self.noises.update(zip((unit.name for unit in self.units), noises, strict=True))
            orders = [order for precision in self._precisions for order in self._orders(precision)]
            if self.cycles is not None:
                self._trials(frozenset(order[:length]) for order in orders for length in _lengths(order))
            if self.trials[frozenset()].holds:
                return
            holding = [
                o for o, t in zip(orders, self._trials(map(frozenset, orders)), strict=True) if t.holds
            ]
            prefixes = list(dict.fromkeys(self._shortest(order) for order in holding))
            for prefix in sorted(prefixes, key=lambda each: self.price(self.trials[each]))[:_SHORTENED]:
                self._lower(prefix)

    @contextmanager
    def _opened_pool(self) -> Iterator[None]:
        """Open a scope in which models are measured in child processes.

        Raises:
            ModelError: A model ended the source's runtime.
        """

        def make() -> Callable[[_Job], Any]:
            self.judge.prepare()
            return lambda job: self._measure(*job)

        cores = len(os.sched_getaffinity(0))
        try:
            self._pool = Pool(make, "the source's runtime", min(cores, _PROCESSES))
            yield
        except DiedError as err:
            raise ModelError(f"{self.judge.name}: a quantised model cannot be run: {err}") from err
        finally:
            if self._pool is not None:
                self._pool.close()
            self._pool = None

    def _measure(self, raised: Raised, noise: bool) -> Any:
        model = built(self.units, self.build, raised)
        return self.judge.noise(model) if noise else self.judge.trial(model, raised)

    def _measured(self, jobs: Sequence[_Job]) -> list[Any]:
        return [self._measure(*job) for job in jobs] if self._pool is None else self._pool.map(jobs)

    def _orders(self, precision: Precision) -> list[list[tuple[str, Precision]]]:
        """Return the orders in which layers are tried for a precision, each a list of layers."""
        names = list(self.noises)
        by_noise = sorted(names, key=lambda name: -self.noises[name])
        # A tensor is in float only if the layers that compute and read it are, so layers are also tried with their
        # neighbours.
        padded = [0.0, *self.noises.values(), 0.0]
        around = {name: sum(padded[at : at + 3]) for at, name in enumerate(names)}
        orders = [by_noise, sorted(names, key=lambda name: -around[name])]
        if self.cycles is not None:
            extra = {name: self._extra(name, self._precision_of(name, precision)) for name in names}
            orders.insert(0, sorted(names, key=lambda name: -self.noises[name] / max(extra[name], 1.0)))
        return [[(name, self._precision_of(name, precision)) for name in order] for order in orders]

    def _precision_of(self, name: str, precision: Precision) -> Precision:
        """Return the precision that a layer gets: `precision`, or a higher one that is no more expensive."""
        order = list(self._precisions)
        found = [each for each in order[order.index(precision) :] if name in self._precisions[each]]
        if self.cycles is None:
            return found[0]
        # Among equally cheap precisions, the last one has the most bits.
        return min(reversed(found), key=lambda each: self._extra(name, each))

    def _shortest(self, order: Sequence[tuple[str, Precision]]) -> Raised:
        """Return the shortest prefix of an order that holds the bound, by bisection; the whole order holds it."""
        short, long = 0, len(order)
        while long - short > 1:
            middle = (short + long) // 2
            if self._trial(frozenset(order[:middle])).holds:
                long = middle
            else:
                short = middle
        return frozenset(order[:long])

    def _lower(self, raised: Raised) -> None:
        """Lower the precisions of layers, one by one, as long as the bound holds."""
        waiting = sorted(raised, key=lambda each: (-self._extra(*each), self.noises[each[0]], each))
        while waiting:
            tried = waiting[:_AHEAD]
            lower = [self._lowered(raised, *each) for each in tried]
            self._trials(choice for choices in lower for choice in choices)
            for each, choices in zip(tried, lower, strict=True):
                waiting.remove(each)
                if (
                    found := next((choice for choice in choices if self.trials[choice].holds), None)
                ) is not None:
                    raised = found
                    break

    def _lowered(self, raised: Raised, name: str, precision: Precision) -> list[Raised]:
        """Return choices with one layer in a lower precision, int8 first."""
        rest, in_order = raised - {(name, precision)}, list(self._precisions)
        below = in_order[: in_order.index(precision)]
        choices = [rest, *(rest | {(name, self._precision_of(name, each))} for each in below)]
        return [choice for choice in choices if choice != raised]

    def _extra(self, name: str, precision: Precision) -> float:
        return self.cycles[precision][name] if self.cycles else 0.0

    def _trial(self, raised: Raised) -> Trial:
        return self._trials([raised])[0]

    def _trials(self, choices: Iterable[Raised]) -> list[Trial]:
        """Return what was measured of choices; those that are new are measured at the same time."""
        wanted = list(choices)
        new = [each for each in dict.fromkeys(wanted) if each not in self.trials]
        self.trials.update(zip(new, self._measured([(each, False) for each in new]), strict=True))
        return [self.trials[each] for each in wanted]


def _lengths(order: Sequence[object]) -> list[int]:
    """Return lengths of prefixes of an order, spread evenly, from none to all."""
    return [round(each) for each in np.linspace(0, len(order), min(_FRONT, len(order)) + 1)]
