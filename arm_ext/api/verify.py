# SPDX-License-Identifier: Apache-2.0
"""`arm_ext.verify`: checks without hardware that payloads compute the right values, and certificates of packages."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict

from arm_ext.common.errors import InternalError, UsageError
from arm_ext.common.json_record import parsed
from arm_ext.common.regular_file import UnreadableError, read_regular
from arm_ext.ethosu import model
from arm_ext.ethosu.options import require_packages
from arm_ext.ethosu.payload import Payload
from arm_ext.package import CERTIFICATE, AnyPackage, Package, package_of
from arm_ext.package.manifest import NpuRegion
from arm_ext.report.certificate import Certificate

SCHEMA_VERSION: Literal[1] = 1

_SEED = 0

_CERTIFICATE_BYTES = 1 << 22
"""Most bytes of a certificate, far above the usual size."""

PROVES = (
    "Each command stream, read from the payload's bytes alone, gives in a functional model of the Ethos-U the bytes "
    "that TOSA's reference model gives for the graph that Vela compiled, on these inputs; and on the self-test's, the "
    "bytes that the CPU's kernels give."
)
PROVES_NOT = (
    "What silicon does: the functional model is this project's reading of Vela's streams, not Arm's of its hardware. "
    "No NPU, driver or clock took part, and cycles are Vela's estimates."
)


class RunComparison(BaseModel):
    """One run of a region's payload: its output bytes, and how many differ from the reference model and the CPU."""

    model_config = ConfigDict(frozen=True)

    inputs: str
    bytes: int
    reference_differs: int
    cpu_differs: int | None = None

    @property
    def equal(self) -> bool:
        """Whether neither the reference model's bytes nor the CPU's differ."""
        return not self.reference_differs and not self.cpu_differs


class RegionVerdict(BaseModel):
    """The comparisons of all runs of one region's payload."""

    model_config = ConfigDict(frozen=True)

    payload: str
    sha256: str
    runs: tuple[RunComparison, ...]


class VerifyReport(BaseModel):
    """Results of `verify --npu`, with a statement of what they prove."""

    model_config = ConfigDict(frozen=True)

    schema_version: Literal[1] = SCHEMA_VERSION
    accelerator: str
    regions: tuple[RegionVerdict, ...]
    proves: str = PROVES
    proves_not: str = PROVES_NOT

    @property
    def equal(self) -> bool:
        """Whether no output byte differs in any run of any region."""
        return all(run.equal for region in self.regions for run in region.runs)


def verify(package: AnyPackage) -> VerifyReport:
    """Run the payloads of a package on the functional model, and their TOSA on the reference model; compare bytes.

    Args:
        package: Folder, opened package, or what `compile` returned.

    Raises:
        UsageError: No such package; it has nothing for an NPU; a file in it is altered.
        EnvError: The reference model is not installed.
        InternalError: A command stream is malformed, or a graph invalid.
    """
    require_packages()
    pkg = package_of(package)
    if pkg.manifest.npu is None:
        raise UsageError(f"{pkg.path}: was compiled without --npu, so it has no payload to verify")
    return VerifyReport(
        accelerator=pkg.manifest.npu.accelerator,
        regions=tuple(_verdict(pkg, region) for region in pkg.manifest.npu.regions),
    )


def certified(package: AnyPackage, file: Path | None = None) -> tuple[str, ...]:
    """Return the levels at which a certificate of `certify` certifies the model.so of a package.

    Args:
        package: Folder, opened package, or what `compile` returned.
        file: The certificate; the package's own by default.

    Raises:
        UsageError: No such package or file; the file is no certificate, or was changed; or it is of another program.
    """
    pkg = package_of(package)
    file = pkg.path / CERTIFICATE if file is None else file
    try:
        data = read_regular(file, most=_CERTIFICATE_BYTES)
    except UnreadableError as error:
        raise UsageError(f"certificate {error}") from error
    certificate = parsed(Certificate, data, file, "it is no certificate of `arm-ext certify`")
    if not certificate.is_intact:
        raise UsageError(f"certificate {file} was changed after it was written; certify the package again")
    levels = certificate.certifies(pkg.manifest.so_sha256)
    if not levels:
        raise UsageError(
            f"certificate {file} does not certify {pkg.path}, whose model.so has the SHA-256 "
            f"{pkg.manifest.so_sha256}; certify this package: arm-ext certify {pkg.path} -o {file}"
        )
    return levels


def _verdict(package: Package, region: NpuRegion) -> RegionVerdict:
    payload = Payload.from_bytes(package.read(region.payload.path))
    tosa = package.read(region.tosa.path)
    values = package.region_values(region)
    try:
        runs = [_compared("self-test", payload, tosa, values.inputs, values.outputs)]
        runs += [_compared(name, payload, tosa, inputs) for name, inputs in _more_inputs(region)]
    except model.StreamError as error:
        raise InternalError(f"{package.path / region.payload.path}: {error}") from error
    return RegionVerdict(payload=region.payload.path, sha256=region.payload.sha256, runs=tuple(runs))


def _more_inputs(region: NpuRegion) -> Iterator[tuple[str, list[npt.NDArray[Any]]]]:
    """Yield further inputs: random ones over the type's range, and its minimum and maximum, where sums are largest."""
    rng = np.random.default_rng(_SEED)
    limits = [(tensor.shape, np.iinfo(tensor.dtype)) for tensor in region.inputs]
    yield (
        "random",
        [rng.integers(info.min, info.max, shape, info.dtype, endpoint=True) for shape, info in limits],
    )
    yield "least", [np.full(shape, info.min, info.dtype) for shape, info in limits]
    yield "greatest", [np.full(shape, info.max, info.dtype) for shape, info in limits]


def _compared(
    name: str,
    payload: Payload,
    tosa: bytes,
    inputs: Sequence[npt.NDArray[Any]],
    cpu: Sequence[npt.NDArray[Any]] | None = None,
) -> RunComparison:
    # Not imported above: its packages are installed with Vela, and were checked before.
    from arm_ext.ethosu.tosa.reference import run_reference

    outputs = model.run(payload, list(inputs))
    return RunComparison(
        inputs=name,
        bytes=sum(output.nbytes for output in outputs),
        reference_differs=_differing(outputs, run_reference(tosa, inputs)),
        cpu_differs=None if cpu is None else _differing(outputs, cpu),
    )


def _differing(outputs: Sequence[npt.NDArray[Any]], others: Sequence[npt.NDArray[Any]]) -> int:
    """Return the number of bytes that differ; if the size of an output in bytes differs, all its bytes count."""
    pairs = [(one.tobytes(), other.tobytes()) for one, other in zip(outputs, others, strict=True)]
    return sum(
        int(np.count_nonzero(np.frombuffer(one, np.uint8) != np.frombuffer(other, np.uint8)))
        if len(one) == len(other)
        else len(one)
        for one, other in pairs
    )
