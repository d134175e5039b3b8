# SPDX-License-Identifier: Apache-2.0
"""Machine code of a planned module: one object per kernel, cached.

`main` and the functions that are its parts are one more module, made each time. What decides the bytes of a kernel's
object is its TensorIR with the target, TVM and its LLVM, and the passes in `codegen`.
"""

import hashlib
import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from contextvars import copy_context
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy.typing as npt
import tvm
from tvm import relax, tirx

from arm_ext import native
from arm_ext.common.errors import ArmExtError, KernelError
from arm_ext.common.faults import is_out_of_memory
from arm_ext.common.scratch import in_memory, temporary
from arm_ext.common.timings import section
from arm_ext.common.workers import threads
from arm_ext.frontends.common import loops
from arm_ext.frontends.common.refuse import reason_of
from arm_ext.pipeline import codegen, fingerprint, kernel_cache
from arm_ext.pipeline.caches import KERNEL_ENTRIES
from arm_ext.pipeline.kernel_cache import BODY, KernelCache
from arm_ext.pipeline.large_constants import LargeConstants
from arm_ext.pipeline.phases import build
from arm_ext.target.data_object import write_data_object
from arm_ext.target.isa import check_object
from arm_ext.target.profiles import Profile
from arm_ext.target.toolchain import LibraryLinker, LinkerRecord, link_plain
from relay_passes.canonicalize import define_casts, define_comparisons
from relay_passes.ir.sources import bindings_of
from relay_passes.memory import hoist_workspaces, storage_offsets
from relay_passes.memory.pointer_calls import takes_pointers

# Names of the object files that export_library writes: functions that call kernels, and weights.
_OBJECTS = ("lib0.o", "devc.o")
_OBJECT = "kernel.o"
_BLOB_NAME = tvm.get_global_func("runtime.ModuleImportsBlobName")
_ALLOCATOR = Path(native.__file__).parent / "new_tensor.ll"

_Build = Callable[[tirx.PrimFunc, tvm.target.Target], tvm.runtime.Module]


_MOST_OPTIMISED = 2000
"""Most bindings of a program whose code around kernels LLVM optimises. Of a language model in four shapes, 3,700, that
takes 7 of 31 CPU seconds, and saves 11 thousand of a token's 27 million instructions."""


@dataclass(frozen=True)
class CompiledProgram:
    """The machine code and the VM executable of a model.

    Attributes:
        executable: The code that calls the kernels, and the weights.
        kernels: An object each, in order.
        triple: LLVM triple of all.
        constants: Weights for which `executable` has placeholders, so that it cannot run in this process.
        features: Features that the code around the kernels may use, if some kernels may use more; else None.
    """

    executable: relax.VMExecutable
    kernels: tuple[bytes, ...]
    triple: str
    constants: LargeConstants | None = None
    features: tuple[str, ...] | None = None

    def export(self, so: Path, cc: str | None, objects: Sequence[Path] = ()) -> LinkerRecord:
        """Link everything into a shared library.

        Args:
            so: Path of the library to write.
            cc: Linker to use instead of the pinned ziglang.
            objects: Further objects to link.
        """
        with section("machine code"), in_memory(*_OBJECTS) as workspace, temporary() as folder:
            linked_too = (*_written(self.kernels, folder), *objects)
            linker = LibraryLinker(self.triple, cc, linked_too, self._check)
            record = self.executable.export_library(
                str(so), fcompile=linker, fpack_imports=self._packed, workspace_dir=str(workspace)
            )
        assert isinstance(record, LinkerRecord)
        return record

    def _check(self, objects: Sequence[str]) -> None:
        if self.features is None:
            return
        for path in map(Path, objects):
            check_object(path.read_bytes(), path.name, self.features)

    def _packed(self, mod: tvm.runtime.Module, _is_system: bool, _prefix: str, workspace: str) -> str:
        """Write the program and its weights as export_library does, without the copies that TVM and LLVM would make."""
        constants = LargeConstants() if self.constants is None else self.constants
        path = Path(workspace) / _OBJECTS[1]
        with path.open("wb") as file:
            write_data_object(file, "devc", _BLOB_NAME(), constants.serialised(mod), self.triple)
        return str(path)

    def machine(self) -> relax.VirtualMachine:
        """Return a virtual machine that runs the program in this process."""
        assert self.constants is None
        with section("machine code"):
            return relax.VirtualMachine(linked(self.executable, self.kernels), tvm.cpu())


def linked(executable: relax.VMExecutable, objects: Sequence[bytes] = ()) -> relax.VMExecutable:
    """Link the code of an executable to a shared library and load it into this process.

    TVM's just-in-time linker takes four times as long as LLD.

    Args:
        executable: Executable with code for this machine. It is changed.
        objects: Further object files to link.
    """
    imports = executable.mod.imports
    if any(each.kind != "llvm" for each in imports):  # TVM's placeholder for a module without code
        return executable
    with temporary() as folder:
        library = folder / "program.so"
        link_plain(_written((*map(_compiled, imports), *objects), folder), library)
        executable.mod.clear_imports()
        executable.mod.import_module(tvm.runtime.load_module(str(library)))
    return executable


def make_program(
    planned: tvm.IRModule,
    profile: Profile,
    initial: Sequence[npt.NDArray[Any]] = (),
    *,
    runs_here: bool = False,
    kernel_cache: KernelCache | None = None,
    constants: LargeConstants | None = None,
    levels: Mapping[str, Profile] | None = None,
) -> CompiledProgram:
    """Compile a planned module to machine code.

    Args:
        planned: The module after the last phase.
        profile: The target.
        initial: Initial values of the states, for a model with states.
        runs_here: Whether the program runs in this process, instead of being exported.
        kernel_cache: Completes the kernels that the phases left without a body.
        constants: Takes the large constants of a program that is exported and does not run in this process.
        levels: Name of a level → the target of the kernels with that `codegen.LEVEL`.
    """
    kernels = {g.name_hint: f for g, f in planned.functions_items() if isinstance(f, tirx.PrimFunc)}
    by_pointers = [symbol for symbol, func in kernels.items() if takes_pointers(func)]
    kernels |= {symbol: kernels[symbol].with_attr(codegen.POINTERS, True) for symbol in by_pointers}
    marked = planned.clone()
    for symbol, func in kernels.items():
        marked.update_func(marked.get_global_var(symbol), func.with_attr(codegen.APART, True))
    bindings = sum(
        len(bindings_of(func)) for _, func in planned.functions_items() if isinstance(func, relax.Function)
    )
    # Functions that are run here run only a few times, so optimising them costs more than it saves.
    optimised = not runs_here and bindings <= _MOST_OPTIMISED
    with section("code generation"):
        executable = build(
            marked, profile, initial, optimised=optimised, own_allocator=True, constants=constants
        )
    objects: list[bytes] = []
    for level, own in _by_level(kernels).items():
        of_level = profile if level is None else (levels or {})[level]
        made = packed_objects(own, of_level.tvm_target(optimised=not runs_here), kernel_cache)
        if level is not None:
            for symbol, data in zip(own, made, strict=True):
                check_object(data, symbol, of_level.features)
        objects += made
    features = profile.features if levels else None
    return CompiledProgram(
        executable, (*objects, _allocator(profile.triple)), profile.triple, constants, features
    )


def _by_level(kernels: Mapping[str, tirx.PrimFunc]) -> dict[str | None, dict[str, tirx.PrimFunc]]:
    """Return the kernels of each level, by the attribute `codegen.LEVEL`; None stands for kernels without it."""
    found: dict[str | None, dict[str, tirx.PrimFunc]] = {}
    for symbol, func in kernels.items():
        level = str(func.attrs[codegen.LEVEL]) if codegen.LEVEL in func.attrs else None
        found.setdefault(level, {})[symbol] = func
    return found


def packed_objects(
    functions: Mapping[str, tirx.PrimFunc], target: tvm.target.Target, kernel_cache: KernelCache | None = None
) -> list[bytes]:
    """Compile kernels to objects that define their symbols as functions of the runtime's calling convention.

    Args:
        functions: Symbol → kernel.
        target: Target for LLVM.
        kernel_cache: Completes the kernels that the phases left without a body.
    """
    return _objects(functions, target, _packed, kernel_cache)


def c_objects(functions: Mapping[str, tirx.PrimFunc], profile: Profile) -> list[bytes]:
    """Compile kernels to objects that each define a C function of pointers, and need no runtime.

    Args:
        functions: Symbol of the C function → kernel.
        profile: The target.
    """
    return _objects(functions, profile.tvm_target(), codegen.build_c_function)


def _objects(
    functions: Mapping[str, tirx.PrimFunc],
    target: tvm.target.Target,
    build: _Build,
    kernel_cache: KernelCache | None = None,
) -> list[bytes]:
    """Compile kernels in parallel, one per processor; each object depends on nothing but its kernel."""
    completed = _whole if kernel_cache is None else kernel_cache.completed

    def object_of(symbol: str, func: tirx.PrimFunc) -> bytes:
        with section("kernels"):
            named = func.with_attrs({"global_symbol": symbol, "target": target.with_host(target)})
            try:
                return KERNEL_ENTRIES.get(
                    lambda: code_key(build.__name__, named, target),
                    lambda: _compiled(build(completed(named), target)),
                )
            except (ArmExtError, OSError):
                raise
            except Exception as err:
                if is_out_of_memory(err):
                    raise
                raise KernelError(symbol, reason_of(err)) from err

    try:
        with threads(len(os.sched_getaffinity(0))) as pool:
            pending = [pool.submit(copy_context().run, object_of, *named) for named in functions.items()]
            return [each.result() for each in pending]
    finally:
        KERNEL_ENTRIES.tidy()


def code_key(form: str, func: tirx.PrimFunc, target: tvm.target.Target) -> str:
    """Return a hash of everything that determines the machine code of a kernel.

    Args:
        form: Name of what is made of it.
        func: The kernel with its `global_symbol`.
        target: Target for LLVM.
    """
    made_from = "\0".join((_maker(), form, str(target), tvm.ir.save_json(func)))
    return hashlib.sha256(made_from.encode()).hexdigest()


def _whole(func: tirx.PrimFunc) -> tirx.PrimFunc:
    assert BODY not in func.attrs
    return func


def _packed(func: tirx.PrimFunc, target: tvm.target.Target) -> tvm.runtime.Module:
    part = tvm.IRModule({func.attrs["global_symbol"]: func}, attrs={codegen.PART: True})
    with target:
        return tvm.tirx.build(part, target=target, pipeline=codegen.registered())


def _allocator(triple: str) -> bytes:
    """Return the object with the function that allocates small outputs (`allocate_directly`)."""
    text = f'target triple = "{triple}"\n{_ALLOCATOR.read_text(encoding="utf-8")}'

    def compiled() -> bytes:
        with temporary() as folder:
            file = folder / _ALLOCATOR.name
            file.write_text(text, encoding="utf-8")
            return _compiled(tvm.runtime.load_module(str(file)))

    return KERNEL_ENTRIES.get(hashlib.sha256(f"{_maker()}\0{text}".encode()).hexdigest(), compiled)


def _compiled(library: tvm.runtime.Module) -> bytes:
    with in_memory(_OBJECT) as folder:
        library.write_to_file(str(folder / _OBJECT))
        return (folder / _OBJECT).read_bytes()


def _written(objects: Sequence[bytes], folder: Path) -> list[Path]:
    paths = [folder / f"kernel{number}.o" for number in range(len(objects))]
    for path, data in zip(paths, objects, strict=True):
        path.write_bytes(data)
    return paths


@cache
def _maker() -> str:
    """Return TVM's versions and hashes of the code generation here, which determine the machine code."""
    wheels = fingerprint.wheels("apache-tvm", "apache-tvm-ffi")
    made_by = (
        codegen,
        loops,
        define_casts,
        define_comparisons,
        kernel_cache,
        hoist_workspaces,
        storage_offsets,
    )
    ours = (inspect.getsource(module) for module in made_by)
    return " ".join((wheels, *(hashlib.sha256(source.encode()).hexdigest() for source in ours)))
