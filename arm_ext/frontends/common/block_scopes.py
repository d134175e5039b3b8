# SPDX-License-Identifier: Apache-2.0
"""Cleanup of TVM's BlockBuilder scopes after an error that leaves them open.

TVM leaves them open, and each builder then prints "BlockBuilder destroyed with remaining blocks!" beside the error's
message.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tvm.relax.block_builder import FunctionScope

_MARK = "_ends_blocks"


@contextmanager
def ending_blocks_on_error() -> Iterator[None]:
    """Open a scope that ends the BlockBuilder scopes that an error leaves open, including those of TVM's importers.

    Inside another such scope it does nothing, since ending blocks twice raises an error that would hide the first one.
    """
    upstream = FunctionScope.__exit__
    if getattr(upstream, _MARK, False):
        yield
        return

    def leave(scope: Any, kind: type[BaseException] | None, error: object, at: object) -> None:
        if kind is not None and not scope._is_emit_func_output_called:
            scope._bb._end_block()
            scope._bb.end_scope()
        upstream(scope, kind, error, at)

    setattr(leave, _MARK, True)
    FunctionScope.__exit__ = leave
    try:
        yield
    finally:
        FunctionScope.__exit__ = upstream
