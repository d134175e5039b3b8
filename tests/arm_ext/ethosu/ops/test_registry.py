# SPDX-License-Identifier: Apache-2.0
"""The registry lists every operation that a file in `ops` defines, and each kind once."""

import importlib
import pkgutil

import pytest

from arm_ext.ethosu import ops
from arm_ext.ethosu.ops.common.contract import Operation
from arm_ext.ethosu.ops.registry import BY_KIND, OPERATIONS

OF_ALL = ("common", "constraints", "registry")
FILES = [found.name for found in pkgutil.iter_modules(ops.__path__) if found.name not in OF_ALL]


@pytest.mark.parametrize("name", FILES)
def test_every_operation_of_a_file_is_listed(name: str):
    module = importlib.import_module(f"{ops.__name__}.{name}")
    defined = {value for value in vars(module).values() if isinstance(value, Operation)}
    assert defined
    assert defined <= set(OPERATIONS)


def test_each_kind_belongs_to_one_operation():
    assert len(BY_KIND) == sum(len(operation.kinds) for operation in OPERATIONS)
