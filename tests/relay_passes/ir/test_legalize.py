# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from tvm import relax
from tvm.relax import op

from relay_passes.ir.legalize import legalize
from tests.relay_passes.graphs import Net, inputs_of, run, tensor

_PLACES = [2, 0, 1]


@pytest.mark.parametrize("mode", ["fast", "clip"])
@pytest.mark.parametrize(
    ("shape", "axis", "places"),
    [((4, 7), 0, _PLACES), ((4, 7), -1, [_PLACES]), ((4, 7), 1, 3), ((7,), None, _PLACES)],
)
def test_takes_are_numpys_and_say_nothing(
    shape: tuple[int, ...], axis: int | None, places: object, mode: str, capfd: pytest.CaptureFixture[str]
) -> None:
    net, x = Net(), tensor("x", *shape)
    indices = np.array(places, np.int64)
    mod = net.module([x], lambda: net.emit("take", op.take(x, relax.const(indices), axis, mode)))
    lowered = legalize(mod)
    assert capfd.readouterr() == ("", "")
    (data,) = inputs_of(mod)
    np.testing.assert_array_equal(run(lowered, data), np.take(data, indices, axis))
