# SPDX-License-Identifier: Apache-2.0
"""Regions to run on a device of a test, and the runtime as a module that loads them."""

import functools
import json
import platform
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tvm_ffi

from arm_ext.ethosu.model import run
from arm_ext.ethosu.payload import Payload
from arm_ext.ethosu.vela.compiler import VelaOptions, compile_network
from arm_ext.native import build
from arm_ext.target.npu import ACCELERATORS
from arm_ext.target.toolchain import link_shared
from tests.arm_ext.ethosu.tosa.graphs import Array, Graph

SYSTEM = Path(__file__).with_name("npu_socket_system.cc")
HOST = f"{platform.machine()}-linux-gnu"
PATTERN = 0x55  # what outputs hold that nobody has written


@dataclass(frozen=True)
class Case:
    """A region with inputs, and the outputs that the functional model has for them."""

    payload: Payload
    inputs: list[Array]
    outputs: list[Array]

    @classmethod
    def of(cls, build_graph: Callable[[Graph], None], npu: str, options: VelaOptions | None = None) -> "Case":
        graph = Graph(seed=1)
        build_graph(graph)
        io = {"inputs": graph.inputs, "outputs": graph.outputs}
        payload = compile_network(graph.serialize(), "TOSA", ACCELERATORS[npu], options, **io).payload
        rng = np.random.default_rng(5)
        inputs = [rng.integers(-128, 128, t.shape).astype(t.dtype) for t in payload.inputs]
        return cls(payload, inputs, run(payload, inputs))


@functools.cache
def _linked() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        so = Path(folder) / "model.so"
        link_shared([build.npu_runtime(HOST, SYSTEM)], so, triple=HOST)
        return so.read_bytes()


class Module:
    """A model.so of which only the runtime is there; `close` unloads it."""

    def __init__(self, folder: Path, name: str = "model") -> None:
        so = folder / f"{name}.so"
        so.write_bytes(_linked())
        self._module = tvm_ffi.load_module(str(so), keep_module_alive=False)

    def run(
        self, case: Case, *, region: int = 0, fail: bool = False, payload: bytes | None = None
    ) -> tuple[bool, list[Array]]:
        """Whether the NPU ran it, and the outputs, which begin as a pattern."""
        outputs = [np.full_like(y, PATTERN) for y in case.outputs]
        data = case.payload.to_bytes() if payload is None else payload
        ran = self.call(region, int(fail), np.frombuffer(data, np.uint8).copy(), *case.inputs, *outputs)
        return ran, outputs

    def call(self, *args: object) -> bool:
        """The entry itself."""
        return self._module["arm_ext_npu_run"](
            *(tvm_ffi.from_dlpack(x) if isinstance(x, np.ndarray) else x for x in args)
        )

    @property
    def status(self) -> dict[str, object]:
        return json.loads(self._module["arm_ext_npu_status"]())

    @property
    def reason(self) -> str:
        """Why the last call of region 0 did not run."""
        return self.status["regions"][0]["reason"]  # type: ignore[index]

    def close(self) -> None:
        del self._module
