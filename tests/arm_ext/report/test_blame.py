# SPDX-License-Identifier: Apache-2.0
import pytest

from arm_ext.report.accuracy.record import Errors, LayerAccuracy


def _layer(own: float, causes: tuple[str, ...], read: float | None = None) -> LayerAccuracy:
    errors = Errors(sqnr_db=own, cosine=1, max_error=0, mean_error=0, mean_shift=0)
    return LayerAccuracy.model_construct(own=errors, read_db=read, causes=causes)


@pytest.mark.parametrize(
    ("own", "causes", "read", "blamed"),
    [
        (53.7, ("its bias is off",), None, False),
        (53.7, ("its bias is off",), 39.0, True),
        (39.9, ("its bias is off",), None, True),
        (39.9, (), None, False),
        (19.9, (), None, True),
    ],
)
def test_what_is_good_is_not_to_blame(
    own: float, causes: tuple[str, ...], read: float | None, blamed: bool
) -> None:
    assert _layer(own, causes, read).is_to_blame == blamed
