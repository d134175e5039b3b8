# SPDX-License-Identifier: Apache-2.0
import pytest

from arm_ext.measure.classify import MAC_CLASSES, InsnClass, classify, disassemble
from tests.arm_ext.measure.a64 import CLASSES


@pytest.mark.parametrize("text", CLASSES)
def test_each_instruction_has_its_class(text: str) -> None:
    word, kind = CLASSES[text]
    assert " ".join(disassemble(word)).rstrip() == text
    assert classify(word) is kind


def test_a_word_that_is_no_instruction_is_scalar() -> None:
    assert disassemble(0) == ("udf", "#0")
    assert disassemble(0xFFFFFFFF) == ("udf", "#0")
    assert classify(0xFFFFFFFF) is InsnClass.SCALAR


def test_the_table_covers_every_class() -> None:
    assert {kind for _, kind in CLASSES.values()} == set(InsnClass)
    assert {kind for kind in InsnClass if kind not in MAC_CLASSES} == {
        InsnClass.VECTOR_LOAD,
        InsnClass.SCALAR_LOAD,
        InsnClass.VECTOR_STORE,
        InsnClass.SCALAR_STORE,
        InsnClass.BRANCH,
        InsnClass.VECTOR,
        InsnClass.SCALAR,
    }
