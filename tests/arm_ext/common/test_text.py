# SPDX-License-Identifier: Apache-2.0
import csv

from arm_ext.common.text import comma_separated


def test_no_text_becomes_a_formula():
    rows = [{"layer": '=HYPERLINK("http://evil")', "share": -0.5}, {"layer": "@a,b", "share": 1}]
    found = [[*row] for row in csv.reader(comma_separated(rows).splitlines())]
    assert found == [["layer", "share"], [' =HYPERLINK("http://evil")', "-0.5"], [" @a,b", "1"]]
