# SPDX-License-Identifier: Apache-2.0
from importlib import import_module
from pathlib import Path

import relay_passes.rules
from relay_passes.rules import registry


def test_each_rule_of_the_folder_is_registered():
    files = Path(relay_passes.rules.__file__).parent.glob("*.py")
    names = {file.stem for file in files} - {"__init__", registry.__name__.rpartition(".")[2]}
    rules = {import_module(f"relay_passes.rules.{name}").RULE.name for name in names}
    registered = (*registry.RULES, *registry.PRODUCT_RULES, *registry.HALF_PRECISION_RULES)
    assert {rule.name for rule in registered} == rules


def test_a_rule_is_named_as_its_file():
    for rule in registry.RULES:
        assert import_module(f"relay_passes.rules.{rule.name}").RULE is rule
