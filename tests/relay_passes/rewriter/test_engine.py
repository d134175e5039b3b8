# SPDX-License-Identifier: Apache-2.0
import pytest
from tvm.relax.dpl import is_op, wildcard

from relay_passes.rewriter.engine import root_operators
from relay_passes.rewriter.rule import Rule
from relay_passes.rules.registry import RULES


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_rule_is_tried_at_operators_that_its_pattern_names(rule: Rule) -> None:
    operators = root_operators(rule.pattern)
    assert operators is None or all(name in str(rule.pattern) for name in operators)


def test_operators_of_a_root() -> None:
    relu, clip = is_op("relax.nn.relu")(wildcard()), is_op("relax.clip")(wildcard())
    assert root_operators(is_op("relax.add")(relu, clip)) == {"relax.add"}
    assert root_operators(relu.has_dtype("float32") | clip) == {"relax.nn.relu", "relax.clip"}
    assert root_operators((is_op("relax.add") | is_op("relax.multiply"))(relu, clip)) == {
        "relax.add",
        "relax.multiply",
    }
    assert root_operators(wildcard()) is None
    assert root_operators(relu | wildcard()) is None
