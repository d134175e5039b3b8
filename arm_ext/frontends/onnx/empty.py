# SPDX-License-Identifier: Apache-2.0
"""The message for a model whose import fails because an input has no elements."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from arm_ext.common.errors import ModelError
from arm_ext.frontends.common.imported import TensorSpec


@contextmanager
def telling_of_empty(inputs: Callable[[], Sequence[TensorSpec]]) -> Iterator[None]:
    """Open a scope around an import: TVM treats a size of 0 as unknown, so its error is replaced by a clear one.

    Raises:
        ModelError: As the import; names the inputs that have no elements, if there are any.
    """
    try:
        yield
    except ModelError as err:
        empty = [spec.describe() for spec in inputs() if 0 in spec.shape]
        if not empty:
            raise
        raise ModelError(
            f"{', '.join(empty)} has no elements, and what follows from it has no known size ({err}). Give it one "
            "element at least, such as a cache's first place that a mask hides, or leave it out of the model"
        ) from err
