# SPDX-License-Identifier: Apache-2.0
"""Building and running single PrimFuncs: on this machine, as assembly, and as a model.so for a board."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax, tirx
from tvm.s_tir.stmt import SBlockRealize

from arm_ext.common.cache import without_entries
from arm_ext.common.scratch import temporary
from arm_ext.pipeline import codegen
from arm_ext.pipeline.caches import KERNEL_ENTRIES
from arm_ext.pipeline.machine_code import code_key, packed_objects
from arm_ext.target.profiles import resolve
from arm_ext.target.toolchain import LibraryLinker, link_plain
from schedules.composites.vocabulary import LINEAR
from schedules.composites.workload import Operand, Step, Workload
from schedules.cores import CORES
from schedules.tir.emit import in_root_block
from tests.schedules.innermost import loops as loops  # those of `assembly`

Array = np.ndarray[Any, Any]

TRIPLE = "aarch64-linux-gnu"
# Without SVE: LLVM puts it into NEON code for cores that have it.
NEON = {"kind": "llvm", "mtriple": TRIPLE, "mcpu": "neoverse-n2", "mattr": ["-sve", "-sve2"]}
NEON_CORE = resolve("neoverse-n2", "-sve,-sve2").core
NEON_CORES = {**CORES, "neoverse-n2": NEON_CORE}
# With SVE of 128 bits.
SVE_PROFILE = resolve("neoverse-n2")
# What every board runs, and what it runs with one feature more.
BASELINE = {"kind": "llvm", "mtriple": TRIPLE, "mcpu": "generic"}
DOTPROD = {**BASELINE, "mattr": ["+dotprod"]}


def first_of(values: Iterable[Any]) -> list[Any]:
    """Return parameters of a test, of which the first runs always, and the others with `-m long`."""
    first, *others = values
    return [first, *(pytest.param(value, marks=pytest.mark.long) for value in others)]


each_fifth = pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.long)])
"""Of the tiles of a kernel each fifth; with `-m long` all of them."""


_FRESH = not any(KERNEL_ENTRIES.folder().glob("*"))


def cached() -> AbstractContextManager[None]:
    """Use the cache of kernels, unless it was empty when this run of the tests began.

    There is nothing to find in it then, and the keys of kernels take a sixth of the time to compile them.
    """
    return without_entries() if _FRESH else nullcontext()


def host() -> tvm.target.Target:
    """This machine with all that its CPU has: FMA in hardware, where the generic x86 target calls libm.

    LLVM does not optimise: the values are the same, and sooner there.
    """
    cpu = tvm.target.codegen.llvm_get_system_cpu()
    return tvm.target.Target({"kind": "llvm", "opt-level": 0, "mcpu": cpu})


def run_on_host(func: tirx.PrimFunc, inputs: Sequence[Array], shape: Sequence[int], dtype: str) -> Array:
    """Runs a PrimFunc whose last argument is its output, which starts as what no test expects."""
    symbol = str(func.attrs["global_symbol"])
    with temporary() as folder, cached():
        (code,) = packed_objects({symbol: as_lowered(func)}, host())
        (folder / "kernel.o").write_bytes(code)
        link_plain([folder / "kernel.o"], folder / "kernel.so")
        kernel = tvm.runtime.load_module(str(folder / "kernel.so"))[symbol]
    output = tvm.runtime.tensor(np.full(shape, 99, dtype))
    kernel(*(tvm.runtime.tensor(np.asarray(array, order="C")) for array in inputs), output)
    return output.numpy()


def assembly(func: tirx.PrimFunc, target: dict[str, Any]) -> str:
    """Return the assembly of a kernel by the passes that are used for packages; from the cache, if it is there."""
    func, on = as_lowered(func), tvm.target.Target(target)

    def compiled() -> bytes:
        mod = tvm.IRModule({func.attrs["global_symbol"]: func})
        built = tvm.tirx.build(mod, target=on, pipeline=codegen.registered())
        return str(built.inspect_source("asm")).encode()

    with cached():
        return KERNEL_ENTRIES.get(lambda: code_key("assembly", func, on), compiled).decode()


def as_lowered(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """Put a kernel into a root block, as lowering does; without it, half of the time goes into compacting buffers."""
    return func if isinstance(func.body, SBlockRealize) else in_root_block(func)


def model_so(
    path: Path,
    calls: Sequence[tuple[tirx.PrimFunc, Sequence[Array], Sequence[int], str]],
    target: dict[str, Any],
) -> Path:
    """A model.so of several PrimFuncs side by side; machine code that is cached is taken from there, as for packages.

    Args:
        path: The file to write.
        calls: Of each its function, how its inputs look, and the shape and dtype of its output; `main` takes all
            inputs in order and returns all outputs.
        target: What to build for.
    """
    builder, on = relax.BlockBuilder(), tvm.target.Target(target)
    kernels: dict[str, tirx.PrimFunc] = {}
    params = [
        [relax.Var(f"x{c}_{i}", relax.TensorType(a.shape, str(a.dtype))) for i, a in enumerate(inputs)]
        for c, (_, inputs, _, _) in enumerate(calls)
    ]
    with builder.function("main", [param for group in params for param in group]):
        outputs = []
        for index, (func, _, shape, dtype) in enumerate(calls):
            symbol = f"kernel_{index}"
            kernels[symbol] = as_lowered(func).without_attr("global_symbol")
            gvar = builder.add_func(kernels[symbol].with_attr(codegen.APART, True), symbol)
            call = relax.call_tir(gvar, params[index], relax.TensorType(shape, dtype))
            outputs.append(builder.emit(call))
        builder.emit_func_output(relax.Tuple(outputs))
    built = relax.build(builder.get(), on, tir_pipeline=codegen.registered(), exec_mode="compiled")
    objects = [path.with_name(f"{path.stem}-{symbol}.o") for symbol in kernels]
    with cached():
        codes = packed_objects(kernels, on)
    for file, code in zip(objects, codes, strict=True):
        file.write_bytes(code)
    built.export_library(str(path), fcompile=LibraryLinker(TRIPLE, objects=tuple(objects)))
    return path


def float_step(name: str, shape: tuple[int, ...], bias: tuple[int, ...]) -> Step:
    """A step of a float32 composite of that output.

    A residual is its second input, a bias its second constant; slopes are the third, so that they need a bias.
    """
    known: dict[str, Callable[[], Step]] = {
        "bias": lambda: Step("bias", Operand(bias, "float32", "constant", 1)),
        "residual": lambda: Step("residual", Operand(shape, "float32", "input", 1)),
        "clip": lambda: Step("clip", bounds=(-0.5, 1.0)),
        "leaky_relu": lambda: Step("leaky_relu", parameters=(("alpha", 0.25),)),
        "prelu": lambda: Step("prelu", Operand(bias, "float32", "constant", 2)),
    }
    return known[name]() if name in known else Step(name)


def linear(m: int, n: int, k: int, steps: Sequence[str] = (), *, lead: Sequence[int] = ()) -> Workload:
    """An `arm.linear` workload whose residual, if it has one, is the second input."""
    shape = (*lead, m, n)
    a = Operand((*lead, m, k), "float32", "input", 0)
    b = Operand((k, n), "float32", "constant", 0)
    return Workload(
        LINEAR.name, (a, b), (), tuple(float_step(step, shape, (n,)) for step in steps), shape, "float32"
    )
