# SPDX-License-Identifier: Apache-2.0
"""Reference outputs of a StableHLO program from XLA on the CPU. Needs jax, which compilation does not."""

import importlib.metadata
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt


def reference(module: Any, inputs: Sequence[npt.NDArray[Any]]) -> tuple[list[npt.NDArray[Any]], str]:
    """Run a program.

    Args:
        module: A module with static shapes.
        inputs: Inputs in the program's order.

    Returns:
        The outputs, none if jax is not installed or cannot run it; and the runtime's name and version.
    """
    try:
        runtime = f"XLA of jax {importlib.metadata.version('jax')}"
    except importlib.metadata.PackageNotFoundError:
        return [], "jax is not installed; pip install jax"
    import jax
    from jax.extend.backend import get_backend
    from jaxlib.xla_client import DeviceList

    cpu = jax.local_devices(backend="cpu")[0]
    try:
        executable = get_backend("cpu").compile_and_load(str(module), DeviceList((cpu,)))
        with jax.enable_x64(True):
            arrays = [jax.device_put(x, cpu) for x in inputs]
        results = executable.execute_sharded(arrays).disassemble_into_single_device_arrays()
        return [np.asarray(result[0]) for result in results], runtime
    except (RuntimeError, ValueError, TypeError) as err:
        return [], f"{runtime} cannot run it: {str(err).strip().splitlines()[0]}"
