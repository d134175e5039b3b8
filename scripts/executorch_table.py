#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Print what ExecuTorch takes for the digits and the zoo's DS-CNN in int8, as rows of library_table.py's second table.

pip install executorch==1.5.1   # beside this project; it makes the programs, and its aarch64 wheel runs them
python scripts/executorch_table.py --target cortex-a76

Both are quantised by ExecuTorch's own quantiser, and XNNPACK computes them whole. The digits' weights are random here:
counts do not depend on them. A program in C++ is linked with the shared libraries of the wheel that they need.
"""

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import train_digits
import zoo
from arm_ext.measure.peers.wheels import wheels
from library_table import against_row, emulated
from tables import markdown

from arm_ext.measure.peers.catalog import Peer
from arm_ext.measure.peers.count import guest_view
from arm_ext.measure.peers.downloads import debian_root, python_version
from arm_ext.target.profiles import resolve
from arm_ext.target.toolchain import zig

_RUNTIME = Peer("executorch", "executorch", "1.5.1", "executorch", "pte")
_STEP = 0.01  # of the largest output, in int8
# What a program needs that XNNPACK computes whole; without its operators' own kernels, which are 9 MB.
_LIBRARIES = ("executorch", "executorch_threadpool", "executorch_backend_xnnpack")


def _networks() -> dict[str, tuple[torch.nn.Module, list[tuple[torch.Tensor, ...]]]]:
    torch.manual_seed(train_digits.SEED)
    images = [(torch.rand(1, 1, 8, 8),) for _ in range(zoo.SAMPLES)]
    return {
        "digits, int8": (train_digits.network().eval(), images),
        "DS-CNN of the zoo, int8": zoo.network("dscnn"),
    }


def _program(network: torch.nn.Module, samples: list[tuple[torch.Tensor, ...]]) -> tuple[bytes, Any]:
    """Return a network in int8 as ExecuTorch's program, and its outputs for ones."""
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (
        XNNPACKQuantizer,
        get_symmetric_quantization_config,
    )
    from executorch.exir import to_edge_transform_and_lower
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    quantizer = XNNPACKQuantizer().set_global(get_symmetric_quantization_config(is_per_channel=True))
    prepared = prepare_pt2e(torch.export.export(network, samples[0]).module(), quantizer)
    for sample in samples:
        prepared(*sample)
    converted = convert_pt2e(prepared)
    exported = torch.export.export(converted, samples[0])
    edge = to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner()])
    return edge.to_executorch().buffer, converted(torch.ones_like(samples[0][0])).detach().numpy()


def _linked(wheel: Path, root: Path, folder: Path) -> Path:
    """Build the program that counts, with the headers of this machine's libstdc++, on which the wheel is built."""
    program, libraries = folder / "executorch_start", root / "usr/lib/aarch64-linux-gnu"
    said = [
        subprocess.run(["g++", option], capture_output=True, text=True, check=True).stdout.strip()
        for option in ("-dumpversion", "-dumpmachine")
    ]
    standard = [f"/usr/include/c++/{said[0]}", f"/usr/include/{said[1]}/c++/{said[0]}"]
    # The runtime's headers include c10's, which torch has.
    headers = [*standard, wheel / "include", Path(torch.__file__).parent / "include"]
    options = ["-target", "aarch64-linux-gnu.2.36", "-O2", "-std=c++17", "-nostdinc++", "-nostdlib++", "-w"]
    macros = ["-DC10_USING_CUSTOM_GENERATED_MACROS", "-fno-exceptions"]
    names = [f"-l{name}" for name in _LIBRARIES]
    link = [f"-L{wheel / 'lib'}", "-Wl,--no-as-needed", *names, libraries / "libstdc++.so.6"]
    source = Path(__file__).with_name("executorch_start.cc")
    includes = [f"-I{path}" for path in headers]
    zig(["c++", *options, *macros, *includes, source, *link, "-o", program])
    return program


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the rows."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--target", default="cortex-a76")
    profile = resolve(parser.parse_args(arguments).target, None)
    root = debian_root()
    wheel = wheels(_RUNTIME, python_version(root)) / _RUNTIME.package
    size = sum((wheel / f"lib/lib{name}.so").stat().st_size for name in _LIBRARIES)
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        program, view = _linked(wheel, root, folder), guest_view(root, folder, profile.core.name)
        for name, (network, samples) in _networks().items():
            data, expected = _program(network, samples)
            (folder / "model.pte").write_bytes(data)
            counts = []
            for part in ("start", "inference"):
                given = [str(folder / "model.pte"), part]
                libraries = ["-E", f"LD_LIBRARY_PATH={wheel / 'lib'}"]
                count, said = emulated(
                    program, given, profile.qemu_cpu or "max", folder / "counts", *libraries, root=view
                )
                # Its integers may be a step off those of PyTorch.
                np.testing.assert_allclose(
                    np.array(said.split(), float),
                    expected.ravel(),
                    rtol=0,
                    atol=_STEP * np.abs(expected).max(),
                )
                counts.append(count)
            rows.append(
                against_row(name, f"ExecuTorch {_RUNTIME.version}, XNNPACK", size, len(data), *counts)
            )
    sys.stdout.write(markdown(("Model", "Runtime", "libraries", "model", "first", "warm", "start"), rows))


if __name__ == "__main__":
    main()
