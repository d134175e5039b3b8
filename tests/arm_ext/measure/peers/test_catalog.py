# SPDX-License-Identifier: Apache-2.0
import pytest

from arm_ext.common.errors import UsageError
from arm_ext.measure.peers.catalog import PEERS, parse_peers


def test_names_are_parsed_in_order() -> None:
    assert [peer.name for peer in parse_peers("litert, onnxruntime")] == ["litert", "onnxruntime"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("onnxruntme", "unknown runtime 'onnxruntme'; did you mean onnxruntime"),
        ("tensorflow", "known are: litert, onnxruntime"),
        ("onnxruntime,", "unknown runtime ''"),
        ("litert,litert", "twice"),
    ],
)
def test_a_wrong_name_is_refused(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_peers(text)


def test_every_version_is_pinned() -> None:
    for peer in PEERS.values():
        assert all("==" in pin for pin in peer.pins)
