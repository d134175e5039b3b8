#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write the models of the zoo as ONNX files: each in fp32 and in QDQ int8, with its calibration samples.

    pip install -e .[torch]
    python scripts/zoo.py build/zoo                    # all
    python scripts/zoo.py build/zoo dscnn resnet50     # some

Weights are random from a seed and batch norms have the statistics of noise, so that activations keep their size
through many layers: such a model predicts nothing, and its graph and its numbers are those of a trained one.
One machine writes the same bytes each time.
"""

import argparse
import functools
import io
import sys
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx

try:
    import torch
    from torch import nn
except ModuleNotFoundError:
    sys.stderr.write("error: torch is not installed here; pip install -e .[torch]\n")
    sys.exit(3)

from architectures import bert_tiny, vit_tiny
from architectures.conformer import conformer
from architectures.convnext import convnext
from architectures.dscnn import dscnn
from architectures.efficientnet import efficientnet_b0
from architectures.mobilenet_v1 import mobilenet_v1
from architectures.mobilenet_v2 import mobilenet_v2
from architectures.resnet50 import resnet50
from architectures.unet import UNet
from architectures.yolo import Yolo

from arm_ext.quantization.static import quantize

SEED = 11
SAMPLES = 8  # for calibration, and as many for batch norms
OPSET = 17
SIDE = 64  # of images: the graph is that of larger ones, and there is something left after 32-fold reduction


@dataclass(frozen=True)
class Input:
    """An input of static shape: token numbers less than `below` if it is given, else standard normal noise."""

    shape: tuple[int, ...]
    below: int | None = None

    def samples(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """Return random samples [count, *shape], float32 or int64."""
        shape = (count, *self.shape)
        if self.below is None:
            return rng.standard_normal(shape, dtype=np.float32)
        return rng.integers(0, self.below, shape)


@dataclass(frozen=True)
class Member:
    """A network and its inputs, by name in the order of `forward`."""

    make: Callable[[], nn.Module]
    inputs: Mapping[str, Input]

    def samples(self, count: int, seed: int) -> dict[str, np.ndarray]:
        """Return random samples by input name, each [count, *shape]."""
        rng = np.random.default_rng(seed)
        return {name: spec.samples(count, rng) for name, spec in self.inputs.items()}


_IMAGE = {"image": Input((1, 3, SIDE, SIDE))}

ZOO: dict[str, Member] = {
    "mobilenet_v2": Member(mobilenet_v2, _IMAGE),
    "mobilenet_v1": Member(mobilenet_v1, {"image": Input((1, 3, 96, 96))}),
    "resnet50": Member(resnet50, _IMAGE),
    "dscnn": Member(dscnn, {"features": Input((1, 1, 49, 10))}),
    "efficientnet_b0": Member(efficientnet_b0, _IMAGE),
    "unet": Member(UNet, _IMAGE),
    "yolo": Member(Yolo, _IMAGE),
    "bert_tiny": Member(
        bert_tiny.BertTiny,
        {"tokens": Input((1, 31), bert_tiny.VOCABULARY), "attend": Input((1, 31), 2)},
    ),
    "vit_tiny": Member(functools.partial(vit_tiny.VitTiny, SIDE), _IMAGE),
    "convnext": Member(convnext, _IMAGE),
    "conformer": Member(conformer, {"speech": Input((1, 61, 144))}),
}


def network(name: str) -> tuple[nn.Module, list[tuple[torch.Tensor, ...]]]:
    """Return a member of ZOO for inference, and the samples for calibration."""
    member = ZOO[name]
    torch.set_num_threads(1)  # the order of sums is part of the weights' bytes
    torch.manual_seed(SEED)
    net = member.make()
    samples = [torch.from_numpy(array) for array in member.samples(SAMPLES, SEED).values()]
    _settle(net, samples)
    return net, list(zip(*samples, strict=True))


def float_model(name: str) -> onnx.ModelProto:
    """Return a member of ZOO in fp32, with batch norms as the network has them."""
    net, samples = network(name)
    stream = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # The exporter of TorchScript names nodes after their modules and needs nothing but torch; of what it folds
        # by itself when it may, batch norm, the rules under test would see nothing.
        torch.onnx.export(
            net,
            samples[0],
            stream,
            input_names=list(ZOO[name].inputs),
            opset_version=OPSET,
            training=torch.onnx.TrainingMode.PRESERVE,
            dynamo=False,
        )
    proto = onnx.load_from_string(stream.getvalue())
    proto.graph.name = name
    return proto


def quantized_model(name: str, proto: onnx.ModelProto) -> onnx.ModelProto:
    """Return `float_model(name)` in QDQ form."""
    return quantize(proto, ZOO[name].samples(SAMPLES, SEED))


def _settle(net: nn.Module, samples: list[torch.Tensor]) -> None:
    """Give batch norms the mean and variance of the samples, and leave the network ready for inference."""
    for module in net.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            module.momentum = None  # the mean of all samples
            nn.init.uniform_(module.weight, 0.5, 1.5)
            nn.init.uniform_(module.bias, -0.5, 0.5)
    net.train()
    with torch.no_grad():
        for sample in zip(*samples, strict=True):
            net(*sample)
    net.eval()


def main() -> None:
    """Write NAME_fp32.onnx, NAME_int8.onnx and NAME_samples.npz."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("output", type=Path, help="folder that receives the files")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(ZOO)}; all by default")
    arguments = parser.parse_args()
    if unknown := set(arguments.names) - set(ZOO):
        parser.error(f"no such model: {', '.join(sorted(unknown))}; there are: {', '.join(ZOO)}")
    arguments.output.mkdir(parents=True, exist_ok=True)
    for name in arguments.names or ZOO:
        model = float_model(name)
        onnx.save(model, arguments.output / f"{name}_fp32.onnx")
        onnx.save(quantized_model(name, model), arguments.output / f"{name}_int8.onnx")
        np.savez(arguments.output / f"{name}_samples.npz", **ZOO[name].samples(SAMPLES, SEED))
        sys.stderr.write(f"{name}\n")


if __name__ == "__main__":
    main()
