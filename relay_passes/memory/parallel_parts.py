# SPDX-License-Identifier: Apache-2.0
"""Splitting of a kernel at its parallel loops, for thread pools that execute functions.

k: s; for i in parallel(n): t(i); u    →    k_0: s    k_1: for i in parallel(n): t(i)    k_2: u
"""

from tvm import tirx
from tvm.ir import Call, TensorLoad
from tvm_ffi import structural_walk

from relay_passes.ir.sizes import is_of_arguments
from relay_passes.memory.hoist_workspaces import parallel_loops


def parallel_parts(func: tirx.PrimFunc) -> list[tirx.PrimFunc] | None:
    """Split a kernel into functions with the same parameters, to be called in order; a parallel loop is one of them.

    Args:
        func: A PrimFunc without blocks, as `hoist_all` returns it.

    Returns:
        The functions; None if parallel loops are nested, or if their trip counts depend on other values than sizes of
            parameters.
    """
    declared: list[tirx.Stmt] = []
    parts: list[list[tirx.Stmt]] = []
    serial: list[tirx.Stmt] = []
    pragmas: list[tirx.AttrStmt] = []
    for stmt in _flat(func.body, pragmas):
        if isinstance(stmt, tirx.DeclBuffer) or (isinstance(stmt, tirx.Bind) and not _loads(stmt)):
            declared.append(stmt)
            serial.append(stmt)
        elif isinstance(stmt, tirx.For) and stmt.kind == tirx.ForKind.PARALLEL:
            if not is_of_arguments(stmt.extent, func) or len(parallel_loops(stmt)) > 1:
                return None
            parts += [serial, [*declared, stmt]]
            serial = list(declared)
        elif parallel_loops(stmt) or isinstance(stmt, tirx.Bind):
            return None
        else:
            serial.append(stmt)
    parts.append(serial)
    pure = (tirx.DeclBuffer, tirx.Bind)
    kept = [part for part in parts if not all(isinstance(stmt, pure) for stmt in part)]
    return [
        func.with_body(_under(pragmas, tirx.SeqStmt(part) if len(part) > 1 else part[0])) for part in kept
    ]


def _under(pragmas: list[tirx.AttrStmt], stmt: tirx.Stmt) -> tirx.Stmt:
    for pragma in reversed(pragmas):
        stmt = tirx.AttrStmt(pragma.node, pragma.attr_key, pragma.value, stmt)
    return stmt


def _flat(stmt: tirx.Stmt, pragmas: list[tirx.AttrStmt]) -> list[tirx.Stmt]:
    """Return the statements in order; pragmas, which apply to the whole function, are added to `pragmas`."""
    if isinstance(stmt, tirx.SeqStmt):
        return [each for part in stmt.seq for each in _flat(part, pragmas)]
    if isinstance(stmt, tirx.AttrStmt) and stmt.attr_key.startswith("pragma_"):
        pragmas.append(stmt)
        return _flat(stmt.body, pragmas)
    return [] if isinstance(stmt, tirx.Evaluate) and isinstance(stmt.value, tirx.IntImm) else [stmt]


def _loads(stmt: tirx.Stmt) -> bool:
    found: list[object] = []
    structural_walk(stmt, [(TensorLoad, found.append), (Call, found.append)])
    return bool(found)
