# SPDX-License-Identifier: Apache-2.0
import pytest
import tvm

from arm_ext.common.errors import EnvError
from arm_ext.common.faults import out_of_memory
from arm_ext.frontends.common.child_process import DiedError
from arm_ext.frontends.common.refuse import failure_of, reason_of


def test_a_reason_is_a_line_of_the_message_or_the_type():
    assert reason_of(ValueError("first\nlast\n")) == "last"
    assert reason_of(ValueError("first\nlast\n"), line=0) == "first"
    assert reason_of(ValueError()) == "ValueError"


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        tvm.error.InternalError("std::bad_alloc"),
        RuntimeError("Failed to allocate memory for requested buffer of size 4294967296"),
        DiedError(str(out_of_memory())),
    ],
)
def test_that_memory_ended_is_no_reason_of_a_model(error: Exception):
    for reason in (reason_of, failure_of):
        with pytest.raises(EnvError, match=r"^there is not enough memory here$"):
            reason(error)


def test_a_shape_that_only_the_run_knows_is_told_as_such():
    error = ValueError(
        "relax.reshape expects its second argument to be Shape. However, the given input has no shape"
    )
    assert failure_of(error).startswith("the shape of its result depends on values that only the run knows")
