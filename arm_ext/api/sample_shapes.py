# SPDX-License-Identifier: Apache-2.0
"""Shapes of dynamic inputs by samples: a command that is given samples need not be told their shapes, too."""

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import numpy.typing as npt

from arm_ext.common.npz import read_npz
from arm_ext.frontends.common.refuse import DynamicInputsError, Shapes
from arm_ext.quantization.samples import ONLY_INPUT

_P = ParamSpec("_P")
_R = TypeVar("_R")


def shaped_by(*names: str) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """Return a decorator of a function that compiles a model.

    If inputs have dynamic dimensions and no shapes, the function is called again with the shapes of the samples.

    Args:
        names: Arguments or options that may be samples, the first that is given first: an .npz, or arrays by name.
    """

    def decorated(function: Callable[_P, _R]) -> Callable[_P, _R]:
        signature = inspect.signature(function)

        @functools.wraps(function)
        def called(*args: _P.args, **kwargs: _P.kwargs) -> _R:
            try:
                return function(*args, **kwargs)
            except DynamicInputsError as error:
                bound = signature.bind(*args, **kwargs).arguments
                more = bound.get("more", {})
                given = [_given(name, bound, more) for name in names]
                shapes = sample_shapes(
                    _arrays(next((each for each in given if each is not None), None)), error.dynamic
                )
                if shapes.keys() != error.dynamic.keys():
                    raise
                known = _given("shapes", bound, more) or {}
                return function(*args, **{**kwargs, "shapes": {**known, **shapes}})  # type: ignore[arg-type]

        return called

    return decorated


def sample_shapes(
    arrays: Mapping[str, npt.NDArray[Any]], dynamic: Mapping[str, Sequence[int | str]]
) -> Shapes:
    """Return the shapes of one sample, of the inputs that have samples which fit.

    Args:
        arrays: Samples by input, each [n, *shape], or [n, *shape[1:]] where the first axis is 1.
        dynamic: Input → its dimensions; unknown ones are text.
    """
    found: Shapes = {}
    for name, dims in dynamic.items():
        array = arrays.get(ONLY_INPUT if len(dynamic) == 1 and name not in arrays else name)
        if array is None:
            continue
        for shape in (array.shape[1:], (1, *array.shape[1:])):
            if len(shape) == len(dims) and all(
                isinstance(dim, str) or dim == size for dim, size in zip(dims, shape, strict=True)
            ):
                found[name] = shape
                break
    return found


def _given(name: str, bound: Mapping[str, Any], more: Mapping[str, Any]) -> Any:
    """Return the value of an argument or option; None if it is not given."""
    own = bound.get(name, more.get(name))
    return own if own is not None else getattr(bound.get("options"), name, None)


def _arrays(samples: Any) -> Mapping[str, npt.NDArray[Any]]:
    """Return the arrays of samples; none if they have no names or are images."""
    if isinstance(samples, Mapping):
        return samples
    if isinstance(samples, str | Path) and Path(samples).is_file():
        return read_npz(Path(samples), "samples, an array an input")
    return {}
