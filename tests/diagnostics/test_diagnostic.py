# SPDX-License-Identifier: Apache-2.0
from schedules.diagnostic import Diagnostic


def test_a_record_reads_as_a_sentence():
    left = Diagnostic.of("its value is too large", 7, 9, nodes=("a", "b"), hint="clamp it")
    assert left.why() == "its value is too large (expected 7, found 9); clamp it"
    assert str(left) == "a, b: its value is too large (expected 7, found 9); clamp it"
    alone = Diagnostic("its result is not quantised", nodes=("a",), operator="sin")
    assert str(alone) == "a: sin: its result is not quantised"


def test_none_is_no_value():
    assert Diagnostic.of("odd") == Diagnostic("odd")
    assert Diagnostic.of("odd", actual=[1, 2]).actual == "[1, 2]"
    assert Diagnostic.of("odd", 0, 1).limit == "0"
