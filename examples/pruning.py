# SPDX-License-Identifier: Apache-2.0
"""Prune a PyTorch network, fine-tune it, and compile it: whole channels for a CPU, 2:4 weights for an Ethos-U85.

    python examples/pruning.py

The network learns scikit-learn's digits here, in a minute. Needs `pip install -e '.[torch,npu,train]'`.
"""

import argparse
import copy
import tempfile
import warnings
from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.utils import prune

import arm_ext
from arm_ext import NpuOptions

HELD_OUT = 360
GROUP, KEPT = 4, 2  # weights of a 2:4 group


class Block(nn.Sequential):
    """A convolution and its BatchNorm."""

    def __init__(self, inputs: int, outputs: int, stride: int = 1) -> None:
        """Make the layers."""
        super().__init__(nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs))


class Net(nn.Module):
    """Four convolutions, one of them around a residual sum."""

    def __init__(self) -> None:
        """Make the layers."""
        super().__init__()
        self.stem, self.wide, self.residual = Block(1, 16), Block(16, 32), Block(32, 32)
        self.deep, self.head = Block(32, 64, 2), nn.Linear(64, 10)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """Return a score for each digit."""
        x = torch.relu(self.wide(torch.relu(self.stem(image))))
        x = torch.relu(self.deep(torch.relu(x + self.residual(x))))
        return self.head(x.mean((2, 3)))


def train(net: Net, images: torch.Tensor, labels: torch.Tensor, epochs: int, rate: float) -> Net:
    """Train with Adam; masked weights stay 0."""
    optimizer = torch.optim.Adam(net.train().parameters(), lr=rate)
    for _ in range(epochs):
        for batch in torch.randperm(len(images)).split(64):
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(images[batch]), labels[batch]).backward()
            optimizer.step()
    return net.eval()


def mask_channels(net: Net, share: float) -> None:
    """Mask the channels with the smallest filters, with gamma and beta of their BatchNorm, so that their output is 0.

    Both operands of the residual sum lose the same channels; otherwise no channel of the sum would be dead.
    """
    for blocks in ([net.stem], [net.wide, net.residual], [net.deep]):
        size = sum(block[0].weight.detach().flatten(1).norm(dim=1) for block in blocks)
        keep = (size.argsort().argsort() >= share * len(size)).float()
        for conv, norm in blocks:
            prune.custom_from_mask(conv, "weight", keep[:, None, None, None].expand_as(conv.weight))
            prune.custom_from_mask(norm, "weight", keep)
            prune.custom_from_mask(norm, "bias", keep)


def mask_two_of_four(net: Net) -> None:
    """Mask the two smallest of each four weights along the input channels, except in the first layer (one channel)."""
    for conv in (net.wide[0], net.residual[0], net.deep[0]):
        groups = conv.weight.detach().abs().unflatten(1, (-1, GROUP))
        keep = (groups.argsort(2).argsort(2) >= GROUP - KEPT).float().flatten(1, 2)
        prune.custom_from_mask(conv, "weight", keep)


def with_zeros(net: Net) -> Net:
    """Write the masks into the weights, as PyTorch's pruning requires at the end."""
    for module in net.modules():
        for name in [key.removesuffix("_orig") for key, _ in module.named_parameters(recurse=False)]:
            if hasattr(module, f"{name}_mask"):
                prune.remove(module, name)
    return net


def right(net: Net, images: torch.Tensor, labels: torch.Tensor) -> float:
    """Return the accuracy on the test images."""
    with torch.no_grad():
        return float((net(images).argmax(1) == labels).float().mean())


def on_cpu(name: str, net: Net, target: str, folder: Path, image: torch.Tensor) -> arm_ext.CompileResult:
    """Compile the module as it is."""
    result = arm_ext.compile(net, target, folder / f"{name}.armpkg", example_inputs=(image,))
    cycles = sum(call.cycles_with_caches for call in result.report.calls)
    print(f"{name}: {result.report.macs / 1e6:.2f} MMAC, {cycles / 1e3:.0f} K cycles on {target}, estimated")  # noqa: T201
    return result


def on_npu(net: Net, npu: str, folder: Path, data: Path, image: torch.Tensor) -> None:
    """Export to ONNX, quantise, and compile for an Ethos-U85."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the other exporter needs another package
        torch.onnx.export(net, (image,), folder / "net.onnx", input_names=["image"], dynamo=False)
    quantized = arm_ext.quantize(folder / "net.onnx", data, folder / "net_int8.onnx", metric="top1")
    metric = quantized.accuracy.metric
    # Without this, so small a network would stay on the CPU, as the hand-over takes longer than the inference.
    options = NpuOptions(npu, npu_ops=("conv2d",))
    report = arm_ext.compile(quantized.path, "cortex-a55", folder / "npu.armpkg", npu=options).report
    for region in report.npu.regions if report.npu else ():
        if region.sparsity is not None and metric is not None:
            print(  # noqa: T201
                f"2:4 on {npu}: {region.cycles} cycles by Vela, {region.sparsity.dense_cycles} with dense weights; "
                f"int8 {metric.integers:.1%} right"
            )


def main() -> None:
    """Train, prune in both ways, fine-tune and compile."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--target", default="neoverse-n2")
    parser.add_argument("--npu", default="ethos-u85-256")
    parser.add_argument("--board", default="virtual")
    args = parser.parse_args()

    torch.manual_seed(0)
    digits = load_digits()
    images = torch.tensor(digits.images[:, None] / 16, dtype=torch.float32)
    labels = torch.tensor(digits.target)
    known, held = (images[:-HELD_OUT], labels[:-HELD_OUT]), (images[-HELD_OUT:], labels[-HELD_OUT:])
    image = held[0][:1]

    whole = train(Net(), *known, epochs=12, rate=3e-3)
    channels, order = copy.deepcopy(whole), copy.deepcopy(whole)
    mask_channels(channels, 0.5)
    mask_two_of_four(order)
    for name, net in {"half of the channels": channels, "2:4": order}.items():
        at_once = right(net, *held)
        train(net, *known, epochs=8, rate=3e-3)
        with_zeros(net)
        print(  # noqa: T201
            f"{name}: {right(whole, *held):.1%} right before, {at_once:.1%} pruned, {right(net, *held):.1%} trained on"
        )

    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        on_cpu("all channels", whole, args.target, folder, image)
        result = on_cpu("half of the channels", channels, args.target, folder, image)
        for each in result.report.removed_channels:
            print(f"  {each.nodes[0]}: {len(each.channels)} of {each.of} channels are not computed")  # noqa: T201
        (scores,) = arm_ext.run(result, args.board, inputs={"image": image.numpy()}).outputs.values()
        with torch.no_grad():
            same = np.allclose(scores, channels(image).numpy(), atol=1e-4)
        print("scores are PyTorch's:", same)  # noqa: T201
        data = folder / "digits.npz"
        np.savez(data, inputs=held[0].numpy(), labels=held[1].numpy())
        on_npu(order, args.npu, folder, data, image)


if __name__ == "__main__":
    main()
