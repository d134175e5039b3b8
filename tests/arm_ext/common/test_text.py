# SPDX-License-Identifier: Apache-2.0
import csv

from arm_ext.common.text import comma_separated, told_apart


def test_no_text_becomes_a_formula():
    rows = [{"layer": '=HYPERLINK("http://evil")', "share": -0.5}, {"layer": "@a,b", "share": 1}]
    found = [[*row] for row in csv.reader(comma_separated(rows).splitlines())]
    assert found == [["layer", "share"], [' =HYPERLINK("http://evil")', "-0.5"], [" @a,b", "1"]]


def test_numbers_have_the_digits_that_tell_them_apart():
    assert told_apart((1.0, 0.99973)) == ["1", "0.9997"]
    assert told_apart((1.0, 0.999973, 0.999973)) == ["1", "0.99997", "0.99997"]
    assert told_apart((29.96, 30.0), 3) == ["29.96", "30"]
    assert told_apart((0.1 + 0.2, 0.3)) == ["0.3", "0.3"]
    assert told_apart((1.0, 1 - 3e-9)) == ["1", "0.999999997"]
