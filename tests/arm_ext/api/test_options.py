# SPDX-License-Identifier: Apache-2.0
from dataclasses import fields
from typing import Any

import pytest

from arm_ext.api.accuracy import AccuracyOptions
from arm_ext.api.options import IMPORT, OPTIONS, ModelOptions, Options, gathered
from arm_ext.api.quantize import QuantizeOptions
from arm_ext.api.tune import TuneOptions
from arm_ext.common.errors import UsageError


def test_keywords_replace_what_a_record_says():
    record = Options(precision="fp16", winograd=False)
    assert gathered("compile", Options, record, {"precision": "bf16"}) == Options(
        precision="bf16", winograd=False
    )
    assert gathered("compile", Options, None, {}) == Options()


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"shape": {}}, "tune: there is no option shape; "),
        ({"cc": "gcc"}, "tune has no option cc; its options are budget, calibration, "),
        ({"precision": "fp8"}, "precision='fp8': must be one of 'fp32'"),
        ({"values": [1]}, "values=.*must be Mapping"),
    ],
)
def test_a_wrong_option_is_named(given: dict[str, Any], reason: str):
    with pytest.raises(UsageError, match=reason):
        gathered("tune", TuneOptions, None, given, IMPORT | {"precision"})


def test_a_record_with_what_a_verb_does_not_take_is_refused():
    with pytest.raises(UsageError, match="advise has no option cc"):
        gathered("advise", Options, Options(cc="gcc"), {}, IMPORT)


def test_a_verb_s_own_option_may_have_the_name_of_another_of_compile():
    found = gathered("quantize", QuantizeOptions, None, {"weights": "int8"}, {"shapes"})
    assert found.weights == "int8"
    with pytest.raises(UsageError, match="weights='int8': must be one of 'embedded'"):
        gathered("compile", Options, None, {"weights": "int8"})


@pytest.mark.parametrize("record", [ModelOptions, Options, TuneOptions, AccuracyOptions, QuantizeOptions])
def test_every_option_says_what_it_means(record: type):
    text = " ".join(each.__doc__ or "" for each in record.__mro__)
    assert [each.name for each in fields(record) if f"{each.name}: " not in text] == []


def test_what_reads_a_model_are_options():
    assert IMPORT <= OPTIONS
