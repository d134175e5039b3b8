# SPDX-License-Identifier: Apache-2.0
"""Cached choices of kernels, and stubs of kernels whose machine code is cached.

    k(x, w, out) { s = alloc(n); ten thousand nodes }    →    k(x, w, out) { s = alloc(n) }, with a key of its body

The body is built only if its machine code is not cached. What passes between `lower` and machine code read of a kernel
is its arguments and the buffers that it allocates: its stub. Choices and stubs are cached under all that decides
them: workload, core or parameters, and our sources.
"""

import hashlib
import pickle
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from functools import cache, partial
from typing import Any

import tvm
from tvm import target, tirx
from tvm_ffi import structural_equal, structural_hash
from tvm_ffi.serialization import from_json_graph_str

import relay_passes
from arm_ext.pipeline import fingerprint
from arm_ext.pipeline.caches import KERNEL_ENTRIES
from relay_passes.memory.hoist_workspaces import allocated, workspaces
from schedules.composites.workload import Workload
from schedules.cores import Core
from schedules.kernels.common import threads
from schedules.lowering.lower import built
from schedules.select import ALL_KERNELS, Choice, Rejected, select
from schedules.tir.emit import in_root_block

BODY = "arm_ext.body"
"""Name of the attribute of a stub that holds the key of its body: equal bodies of a compile have the same."""


class KernelCache:
    """Caches the choices of kernels in one compile, and their stubs; builds a kernel's body only when it is needed."""

    def __init__(self) -> None:
        """Start without stubs."""
        self._stubs: dict[str, tirx.PrimFunc] = {}
        self._bodies: dict[str, Callable[[], tirx.PrimFunc]] = {}
        self._alike: defaultdict[int, list[str]] = defaultdict(list)

    def select(self, workload: Workload, core: Core, without: Collection[str] = ()) -> Choice | Rejected:
        """Choose a kernel as `schedules.select.select` does; the choice is cached."""
        key = _key("select", [kernel.NAME for kernel in ALL_KERNELS], workload, core, sorted(without))
        # Unpickling adds no risk: whoever can write to the cache can also replace object files, which the self-test
        # runs.
        stored = KERNEL_ENTRIES.get(key, lambda: pickle.dumps(select(workload, core, without=without)))
        found = pickle.loads(stored)
        assert isinstance(found, Choice | Rejected)
        return found

    def stub(self, kernel: str, workload: Workload, params: Any, on: target.Target) -> tirx.PrimFunc:
        """Return the stub of a kernel, cached; the arguments are those of `built`."""
        key = _key("stub", kernel, workload, params, str(on))
        if key not in self._stubs:
            build = cache(partial(built, kernel, workload, params, on))
            self._bodies[key] = build
            stored = KERNEL_ENTRIES.get(key, lambda: tvm.ir.save_json(_stub(build())).encode())
            # tvm.ir.load_json would spend most of its time upgrading JSON of older versions in Python.
            stub = from_json_graph_str(stored.decode())
            self._stubs[key] = stub.with_attr(BODY, self._first_alike(key, int(stub.attrs[BODY])))
        return self._stubs[key]

    def _first_alike(self, key: str, hashed: int) -> str:
        """Return the key of the first kernel in this compile whose body equals that of `key`.

        TVM's structural hash collides: bodies that differ in two small integers have a sixth as many hashes as there
        are pairs. So bodies of the same hash are compared.
        """
        alike = self._alike[hashed]
        for other in alike:
            if self._are_equal(other, key):
                return other
        alike.append(key)
        return key

    def _are_equal(self, *keys: str) -> bool:
        def compared() -> bytes:
            return bytes([structural_equal(*(self._bodies[key]() for key in keys))])

        return bool(KERNEL_ENTRIES.get(_key("equal", *keys), compared)[0])

    def completed(self, func: tirx.PrimFunc) -> tirx.PrimFunc:
        """Return a stub, after memory planning, with its body; return other functions unchanged."""
        if BODY not in func.attrs:
            return func
        alone = tvm.IRModule({"kernel": self._bodies[str(func.attrs[BODY])]()})
        (whole,) = relay_passes.accept_offsets(relay_passes.hoist_workspaces(alone)).functions.values()
        return (
            tirx.PrimFunc(whole.params, whole.body, whole.ret_type, func.attrs)
            .without_attr(BODY)
            .without_attr(threads.DIVIDED)
        )

    def measured(self, func: tirx.PrimFunc, measure: Callable[[tirx.PrimFunc], int]) -> int:
        """Return `measure(func)`, cached by the name of `measure` and the body's key; a miss builds the body."""
        if BODY not in func.attrs:
            return measure(func)
        key = _key(measure.__module__, measure.__qualname__, str(func.attrs[BODY]))
        return int(KERNEL_ENTRIES.get(key, lambda: str(measure(self.completed(func))).encode()))


def _key(*made_from: object) -> str:
    return hashlib.sha256(repr((fingerprint.kernel_programs(), *made_from)).encode()).hexdigest()


def _stub(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """Reduce a kernel's body to its allocations per call and per parallel iteration.

    The attribute `BODY` has its hash, `threads.DIVIDED` whether threads divide a call.
    """
    of_a_call = list(workspaces(func.body))
    known = set(of_a_call)
    left = [buffer for buffer in allocated(func.body) if buffer not in known]
    loop = tirx.For(tirx.Var("i", "int64"), 0, 1, tirx.ForKind.PARALLEL, _allocating(left))
    kept = func.with_body(tirx.SeqStmt([_allocating(of_a_call), loop]))
    known_of = {BODY: str(structural_hash(func)), threads.DIVIDED: threads.is_divided(func)}
    return in_root_block(kept).with_attrs(known_of)


def _allocating(buffers: Sequence[tirx.Buffer]) -> tirx.Stmt:
    nothing = tirx.Evaluate(0)
    return tirx.SeqStmt([*map(tirx.AllocBuffer, buffers), nothing]) if buffers else nothing
