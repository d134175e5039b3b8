# SPDX-License-Identifier: Apache-2.0
"""Shared inputs of the cases: a small model in every format, packages for three kinds of machine, a database.

python -m tests.hostile.assets FOLDER [--light]

--light makes the ONNX models and arrays alone, which is all that the fast cases use.
"""

import shutil
import sys
from pathlib import Path

import numpy as np
import onnx


def make_assets(folder: Path, light: bool) -> None:
    """Write all of them; a folder that is complete is left as it is."""
    done = folder / "complete"
    if done.exists():
        return
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    _onnx(folder)
    if light:
        return
    _tflite(folder)
    _torch(folder)
    _stablehlo(folder)
    _packages(folder)
    done.touch()


def _onnx(folder: Path) -> None:
    from tests.arm_ext.models import mlp
    from tests.arm_ext.npu_models import whole
    from tests.arm_ext.state_models import accumulator
    from tests.hostile.models import relu

    onnx.save(relu(), folder / "relu.onnx")
    onnx.save(mlp(), folder / "mlp.onnx")
    onnx.save(mlp("n"), folder / "dynamic.onnx")
    onnx.save(whole(), folder / "int8.onnx")
    onnx.save(accumulator(), folder / "sum.onnx")
    image = [onnx.helper.make_node("GlobalAveragePool", ["image"], ["mean"], name="pool")]
    image += [onnx.helper.make_node("Flatten", ["mean"], ["logits"], name="flatten")]
    onnx.save(relu(image, [1, 3, 8, 8], ["logits"], [[1, 3]], names=["image"]), folder / "image.onnx")
    for name, shape in (("mlp", (2, 31)), ("relu", (1, 8))):
        np.savez(folder / f"{name}.npz", x=np.random.default_rng(1).standard_normal((4, *shape)).astype("f"))


def _tflite(folder: Path) -> None:
    from tests.arm_ext.frontends.tflite.builder import TfliteBuilder

    model = TfliteBuilder()
    model.op("RELU", [model.take("float32", 1, 8)], [model.tensor("float32", 1, 8)])
    (folder / "relu.tflite").write_bytes(model.build())


def _torch(folder: Path) -> None:
    import torch

    program = torch.export.export(torch.nn.ReLU().eval(), (torch.ones(1, 8),))
    torch.export.save(program, folder / "relu.pt2")


def _stablehlo(folder: Path) -> None:
    import jax
    from jax import export

    from tests.arm_ext.frontends.stablehlo.models import bytecode, text

    values = (np.ones((1, 8), np.float32),)
    (folder / "relu.mlir").write_bytes(text(jax.nn.relu, values))
    (folder / "relu.mlirbc").write_bytes(bytecode(jax.nn.relu, values))
    serialised = export.export(jax.jit(jax.nn.relu))(*values).serialize()
    (folder / "relu.jax").write_bytes(bytes(serialised))


def _packages(folder: Path) -> None:
    import arm_ext
    from arm_ext.cli import invoke

    arm_ext.compile(folder / "mlp.onnx", target="host", output=folder / "host.armpkg")
    arm_ext.compile(folder / "relu.onnx", target="arm", output=folder / "arm.armpkg")
    arm_ext.compile(
        folder / "sum.onnx", target="arm", output=folder / "state.armpkg", state={"sum": "sum_out"}
    )
    npu = ["--npu", "ethos-u65-256", "--npu-ops", "conv2d", "--target", "cortex-a55"]
    assert invoke(["compile", str(folder / "int8.onnx"), *npu, "-o", str(folder / "npu.armpkg")]) == 0
    assert invoke(["tune", str(folder / "mlp.onnx"), "--db", str(folder / "db"), "--trials", "2"]) == 0


if __name__ == "__main__":
    make_assets(Path(sys.argv[1]), light="--light" in sys.argv)
