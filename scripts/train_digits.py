# SPDX-License-Identifier: Apache-2.0
"""Train the digits classifier that ships with arm_ext and write its fp32 and QDQ int8 ONNX files.

    pip install -e .[train]
    python scripts/train_digits.py arm_ext/api/digits

On one machine the same versions write the same bytes. Input: float32 [1, 1, 8, 8], pixels / 16; output: ten
logits. The 1,797 images are those of scikit-learn's `load_digits`; 360 of them, the same share of each digit,
are held out from training and from calibration, and are written beside the models.
"""

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn

SEED = 7
HELD_OUT = 360
EPOCHS = 60
BATCH = 64
LEARNING_RATE = 5e-3
PIXEL_MAX = 16  # load_digits counts set pixels of 4x4 blocks: 0..16
OPSET = 17
IR_VERSION = 8  # the IR of the ONNX release that brought opset 17

# name, input channels, output channels, kernel, stride, groups; each is conv + batch norm + relu
LAYERS = (
    ("conv1", 1, 16, 3, 1, 1),
    ("conv2/depthwise", 16, 16, 3, 1, 16),
    ("conv2/pointwise", 16, 32, 1, 1, 1),
    ("conv3", 32, 64, 3, 2, 1),
)
CLASSES = 10

Array = NDArray[np.float32]


def split() -> tuple[Array, Array, NDArray[np.int64], NDArray[np.int64]]:
    """Return train images, held-out images (float32 [n, 1, 8, 8]), train labels, held-out labels."""
    digits = load_digits()
    images = (digits.images[:, None] / PIXEL_MAX).astype(np.float32)
    labels = digits.target.astype(np.int64)
    parts = train_test_split(images, labels, test_size=HELD_OUT, stratify=labels, random_state=SEED)
    return tuple(parts)


def network() -> nn.Sequential:
    """Return the untrained network: LAYERS, global average pooling, a linear classifier."""
    blocks: list[nn.Module] = []
    for _, cin, cout, kernel, stride, groups in LAYERS:
        conv = nn.Conv2d(cin, cout, kernel, stride, kernel // 2, groups=groups, bias=False)
        blocks.append(nn.Sequential(conv, nn.BatchNorm2d(cout), nn.ReLU()))
    return nn.Sequential(*blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(LAYERS[-1][2], CLASSES))


def train(images: Array, labels: NDArray[np.int64]) -> nn.Sequential:
    """Train with Adam and a cosine schedule; one thread and a fixed seed, so that it repeats bit for bit."""
    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    net = network()
    x, y = torch.from_numpy(images), torch.from_numpy(labels)
    optimizer = torch.optim.Adam(net.parameters(), lr=LEARNING_RATE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, EPOCHS)
    for _ in range(EPOCHS):
        for batch in torch.randperm(len(x)).split(BATCH):
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(x[batch]), y[batch]).backward()
            optimizer.step()
        schedule.step()
    return net.eval()


def folded(conv: nn.Conv2d, norm: nn.BatchNorm2d) -> tuple[Array, Array]:
    """Return weight and bias of the convolution that equals conv followed by norm, folded in float64."""
    assert norm.running_mean is not None
    assert norm.running_var is not None
    weight, gamma, beta, mean, var = (
        t.detach().double().numpy()
        for t in (conv.weight, norm.weight, norm.bias, norm.running_mean, norm.running_var)
    )
    scale = gamma / np.sqrt(var + norm.eps)
    return (weight * scale[:, None, None, None]).astype(np.float32), (beta - mean * scale).astype(np.float32)


def to_onnx(net: nn.Sequential) -> onnx.ModelProto:
    """Write the trained network as ONNX, batch norm folded; a node's output tensor bears the node's name."""
    nodes: list[onnx.NodeProto] = []
    weights: list[onnx.TensorProto] = []

    def add(op: str, name: str, source: str, *constants: Array, **attributes: object) -> str:
        names = [f"{name}/{part}" for part, _ in zip(("weight", "bias"), constants, strict=False)]
        weights.extend(numpy_helper.from_array(c, n) for c, n in zip(constants, names, strict=True))
        nodes.append(helper.make_node(op, [source, *names], [name], name=name, **attributes))
        return name

    x = "image"
    for block, (name, _, _, kernel, stride, groups) in zip(net, LAYERS, strict=False):
        weight, bias = folded(block[0], block[1])
        geometry = {"kernel_shape": [kernel] * 2, "pads": [kernel // 2] * 4, "strides": [stride] * 2}
        x = add("Conv", name, x, weight, bias, group=groups, **geometry)
        x = add("Relu", f"{name}/relu", x)
    x = add("Flatten", "flatten", add("GlobalAveragePool", "pool", x), axis=1)
    linear = net[-1]
    x = add("Gemm", "logits", x, linear.weight.detach().numpy(), linear.bias.detach().numpy(), transB=1)
    side = load_digits().images.shape[-1]
    graph = helper.make_graph(
        nodes,
        "digits",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 1, side, side])],
        [helper.make_tensor_value_info(x, TensorProto.FLOAT, [1, CLASSES])],
        weights,
    )
    opset = helper.make_opsetid("", OPSET)
    model = helper.make_model(
        graph, opset_imports=[opset], ir_version=IR_VERSION, producer_name="train_digits.py"
    )
    onnx.checker.check_model(model, full_check=True)
    return model


class _Calibration(CalibrationDataReader):
    def __init__(self, images: Array) -> None:
        self._images: Iterator[Array] = iter(images[:, None])

    def get_next(self) -> dict[str, Array] | None:
        image = next(self._images, None)
        return None if image is None else {"image": image}


def main() -> None:
    """Train, quantise and write digits_fp32.onnx, digits_int8.onnx and held_out.npz."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("output", type=Path, help="folder that receives the three files")
    output = parser.parse_args().output
    train_x, held_x, train_y, held_y = split()
    model = to_onnx(train(train_x, train_y))
    output.mkdir(parents=True, exist_ok=True)
    onnx.save(model, output / "digits_fp32.onnx")
    with tempfile.TemporaryDirectory() as scratch:
        quantized = Path(scratch) / "digits_int8.onnx"
        quantize_static(
            output / "digits_fp32.onnx",
            quantized,
            _Calibration(train_x),
            quant_format=QuantFormat.QDQ,
            per_channel=True,
            activation_type=QuantType.QInt8,
            weight_type=QuantType.QInt8,
            extra_options={"WeightSymmetric": True, "ActivationSymmetric": False},
        )
        (output / "digits_int8.onnx").write_bytes(quantized.read_bytes())
    np.savez_compressed(output / "held_out.npz", inputs=held_x, labels=held_y)


if __name__ == "__main__":
    main()
