# SPDX-License-Identifier: Apache-2.0
"""Construction of the manifest of a compiled model."""

import importlib.metadata
from collections.abc import Sequence
from dataclasses import dataclass

import tvm

from arm_ext.common.version import __version__
from arm_ext.frontends.common import imported
from arm_ext.frontends.common.imported import ImportedModel, TensorSpec
from arm_ext.package.manifest import (
    BucketInfo,
    Calibration,
    Check,
    LevelInfo,
    Library,
    Linker,
    Manifest,
    Memory,
    ModelInfo,
    Npu,
    Numerics,
    PackageFile,
    Precision,
    State,
    TargetInfo,
    Tensor,
    TunedKernel,
    Versions,
)
from arm_ext.target.profiles import Profile
from arm_ext.target.toolchain import LinkerRecord


@dataclass(frozen=True)
class ManifestContents:
    """The information about a compiled model from which its manifest is made.

    Attributes:
        model: The imported model.
        calibrated: How it was quantised here, if it was.
        profile: The target.
        precision: Dtype in which float operators compute.
        numerics: Numerics of quantised operators.
        memory: Memory of one inference.
        macs: Multiply-accumulates of one inference.
        check: How outputs are compared.
        linker: The linker of model.so.
        npu: The NPU's regions, if there is an NPU.
        tuned: Records that decided kernels.
        buckets: Shapes to choose from.
        library: Sizes of the C library, if it is one.
        levels: Of a family of cores, the levels that model.so chooses from.
    """

    model: ImportedModel
    calibrated: Calibration | None
    profile: Profile
    precision: Precision
    numerics: Numerics
    memory: Memory
    macs: int
    check: Check
    linker: LinkerRecord
    npu: Npu | None
    tuned: list[TunedKernel]
    buckets: list[BucketInfo]
    library: Library | None = None
    levels: Sequence[LevelInfo] = ()


def make_manifest(compiled: ManifestContents, files: list[PackageFile]) -> Manifest:
    """Return the manifest; `files` are all other files of the package."""
    model, profile = compiled.model, compiled.profile
    return Manifest(
        files=files,
        model=ModelInfo(
            name=model.name, format=model.format, sha256=model.sha256, calibration=compiled.calibrated
        ),
        inputs=tensors(model.inputs),
        outputs=tensors(model.outputs),
        states=[_state(state) for state in model.states],
        target=TargetInfo(
            profile=profile.name,
            core=profile.core.name,
            triple=profile.triple,
            cpu=profile.core.llvm_cpu,
            features=list(profile.features),
            qemu_cpu=profile.qemu_cpu,
            mca_cpu=profile.core.mca_cpu,
        ),
        precision=compiled.precision,
        numerics=compiled.numerics,
        versions=Versions(
            arm_ext=__version__,
            tvm=importlib.metadata.version("apache-tvm"),
            tvm_ffi=importlib.metadata.version("apache-tvm-ffi"),
            llvm=str(tvm.get_global_func("target.llvm_version_major")()),
            linker=Linker(name=compiled.linker.name, version=compiled.linker.version),
        ),
        memory=compiled.memory,
        macs=compiled.macs,
        check=compiled.check,
        npu=compiled.npu,
        tuned=compiled.tuned,
        buckets=compiled.buckets,
        library=compiled.library,
        levels=list(compiled.levels),
    )


def tensors(specs: Sequence[TensorSpec]) -> list[Tensor]:
    """Return inputs or outputs as entries of a manifest."""
    return [
        Tensor(
            name=spec.name,
            shape=list(spec.shape),
            dtype=spec.dtype,
            batch=spec.batch,
            open=list(spec.open),
            labels=list(spec.labels),
        )
        for spec in specs
    ]


def _state(state: imported.State) -> State:
    return State(
        input=state.input,
        output=state.output,
        shape=list(state.initial.shape),
        dtype=state.initial.dtype.name,
        initial="given" if state.initial.any() else "zeros",
    )
