# SPDX-License-Identifier: Apache-2.0
import pytest
from tvm.relax.dpl import is_const, is_op, wildcard

from relay_passes.rewriter.patterns import maybe
from relay_passes.rewriter.testing import assert_pattern
from tests.relay_passes.graphs import conv_bn_relu, residual_block, twins

_conv = is_op("relax.nn.conv2d")(wildcard(), is_const())
_relu = is_op("relax.nn.relu")


def test_the_number_of_matches_is_asserted() -> None:
    assert_pattern(twins(), _relu(_conv), count=2)
    assert_pattern(conv_bn_relu(), _conv)
    assert_pattern(conv_bn_relu(), is_op("relax.matmul")(wildcard(), wildcard()), count=0)


def test_a_match_inside_a_longer_one_does_not_count() -> None:
    biased = maybe(_conv, lambda value: is_op("relax.add")(value, wildcard()), lambda value: _relu(value))
    assert_pattern(residual_block(), biased, count=2)


def test_the_message_says_what_there_is_instead() -> None:
    with pytest.raises(AssertionError) as failure:
        assert_pattern(twins(), _relu(_conv), count=1)
    assert str(failure.value).splitlines() == [
        "expected 1 of relax.nn.relu, found 2",
        "  match: conv1, relu1",
        "  match: conv2, relu2",
        "  operators: relax.nn.conv2d 2, relax.nn.relu 2, relax.nn.softmax 2",
    ]


def test_the_message_names_near_misses() -> None:
    biased = is_op("relax.sigmoid")(is_op("relax.add")(_conv, wildcard()))
    with pytest.raises(
        AssertionError, match=r"near miss: conv1.*expected relax\.sigmoid, found relax\.nn\.relu at relu1"
    ):
        assert_pattern(residual_block(), biased)
