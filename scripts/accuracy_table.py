# SPDX-License-Identifier: Apache-2.0
"""Train DS-CNN and ResNet-8 on labelled data, and print what each way of quantisation keeps, as a Markdown table.

    pip install -e .[train]
    python scripts/accuracy_table.py build/labelled                # both: two to three minutes of one core
    python scripts/accuracy_table.py build/labelled resnet8

It writes NAME.onnx, NAME_samples.npz (calibration) and NAME_held_out.npz with labels, for `arm-ext quantize` and
`accuracy`, and skips the training of a network whose files exist. Top-1 and SQNR are of the QDQ model in float, by
onnxruntime, on other data.
"""

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import onnx
import onnxruntime
import torch
from architectures.dscnn import dscnn
from architectures.resnet8 import resnet8
from labelled_data import Floats, Labelled, digits, keywords
from onnxruntime.quantization import CalibrationDataReader, quantize_static
from tables import markdown
from torch import nn

from arm_ext.quantization.error_sums import error_of
from arm_ext.quantization.static import Quantizer, fold_into_convolutions

BATCH, RATE, OPSET, SEED = 64, 3e-3, 17, 7
CALIBRATION = 200

Ways = dict[str, Callable[[Path, Floats], onnx.ModelProto]]


@dataclass(frozen=True)
class Task:
    """A network with its data.

    Attributes:
        network: Makes the untrained network.
        epochs: Passes over the data; each has data of its own.
        training: Epoch → data.
        held_out: Data that training does not see.
    """

    network: Callable[[], nn.Module]
    epochs: int
    training: Callable[[int], Labelled]
    held_out: Callable[[], Labelled]


TASKS = {
    "dscnn": Task(dscnn, 6, lambda epoch: keywords(epoch, 1200), lambda: keywords(999, 1000)),
    "resnet8": Task(
        resnet8,
        10,
        lambda epoch: digits(epoch, 1, held_out=False),
        lambda: digits(999, 3, held_out=True),
    ),
}


def train(task: Task) -> nn.Module:
    """Train with Adam and a cosine schedule, in one thread."""
    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    net = task.network().train()
    optimizer = torch.optim.Adam(net.parameters(), lr=RATE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, task.epochs)
    for epoch in range(task.epochs):
        x, y = (torch.from_numpy(part) for part in task.training(epoch))
        for batch in torch.randperm(len(x)).split(BATCH):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(net(x[batch]), y[batch])
            loss.backward()
            optimizer.step()
        schedule.step()
        sys.stderr.write(f"epoch {epoch + 1} of {task.epochs}: loss {float(loss):.3f}\n")
    return net.eval()


def write(name: str, folder: Path) -> None:
    """Train a task's network, and write it with its data."""
    task = TASKS[name]
    net = train(task)
    x, labels = task.held_out()
    torch.onnx.export(
        net,
        (torch.from_numpy(x[:1]),),
        folder / "net.onnx",
        input_names=["x"],
        opset_version=OPSET,
        dynamo=False,
    )
    onnx.save(fold_into_convolutions(onnx.load(folder / "net.onnx")), folder / f"{name}.onnx")
    (folder / "net.onnx").unlink()
    np.savez(folder / f"{name}_samples.npz", inputs=task.training(0)[0][:CALIBRATION])
    np.savez(folder / f"{name}_held_out.npz", inputs=x, labels=labels)


def outputs(model: onnx.ModelProto, data: Floats) -> Floats:
    """Return the logits of a model, each node on its own and in float."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    return np.concatenate([session.run(None, {name: x[None]})[0] for x in data])


class _Samples(CalibrationDataReader):
    def __init__(self, data: Floats) -> None:
        self._data: Iterator[Floats] = iter(data[:, None])

    def get_next(self) -> dict[str, Floats] | None:
        x = next(self._data, None)
        return None if x is None else {"x": x}


def by_default(path: Path, samples: Floats, *, per_channel: bool) -> onnx.ModelProto:
    """Quantise as onnxruntime does if it is told no more than the samples."""
    with TemporaryDirectory() as folder:
        quantized = Path(folder) / "q.onnx"
        quantize_static(path, quantized, _Samples(samples), per_channel=per_channel)
        return onnx.load(quantized)


def ours(path: Path, samples: Floats, **options: object) -> onnx.ModelProto:
    """Quantise as `arm-ext quantize` does."""
    method = options.pop("method", "minmax")
    return Quantizer(path, {"x": samples}, method, ({},), **options).quantized({})  # type: ignore[arg-type]


WAYS: Ways = {
    "onnxruntime's default": partial(by_default, per_channel=False),
    "onnxruntime, per channel": partial(by_default, per_channel=True),
    "minmax": ours,
    "percentile": partial(ours, method="percentile"),
    "entropy": partial(ours, method="entropy"),
    "mse": partial(ours, method="mse"),
    "minmax, equalize": partial(ours, corrections=("equalize",)),
    "minmax, bias": partial(ours, corrections=("bias",)),
    "minmax, round": partial(ours, corrections=("round",)),
    "minmax, equalize, bias, round": partial(ours, corrections=("equalize", "bias", "round")),
    "mse, bias, round": partial(ours, method="mse", corrections=("bias", "round")),
    "int16 activations": partial(ours, activations="int16"),
    "int16 activations, bias, round": partial(ours, activations="int16", corrections=("bias", "round")),
}


def rows(name: str, folder: Path) -> Iterator[tuple[str, ...]]:
    """Yield the top-1 accuracy and SQNR of each way of quantisation."""
    path = folder / f"{name}.onnx"
    samples, held = (
        np.load(folder / f"{name}_samples.npz")["inputs"],
        np.load(folder / f"{name}_held_out.npz"),
    )
    exact = outputs(onnx.load(path), held["inputs"])
    yield name, "fp32", _top1(exact, held["labels"]), ""
    for way, quantized in WAYS.items():
        found = outputs(quantized(path, samples), held["inputs"])
        yield name, way, _top1(found, held["labels"]), f"{error_of(found, exact).sqnr_db:.1f} dB"


def _top1(logits: Floats, labels: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> str:
    return f"{100 * float(np.mean(logits.argmax(1) == labels)):.2f} %"


def main() -> None:
    """Train the networks whose files do not exist, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="folder of the models and the data")
    parser.add_argument("names", nargs="*", help=f"of {', '.join(TASKS)}; all by default")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    found: list[tuple[str, ...]] = []
    for name in arguments.names or TASKS:
        if not (arguments.folder / f"{name}.onnx").exists():
            write(name, arguments.folder)
        found += rows(name, arguments.folder)
    sys.stdout.write(markdown(("model", "quantised", "top-1", "SQNR of the outputs"), found))


if __name__ == "__main__":
    main()
