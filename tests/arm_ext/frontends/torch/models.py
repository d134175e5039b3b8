# SPDX-License-Identifier: Apache-2.0
"""Twenty small architectures in plain torch: name → (module, example inputs)."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

Example = tuple[nn.Module, tuple[Tensor, ...]]


class Residual(nn.Module):
    """x + f(x)."""

    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.inner = nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.inner(x)


def conv(
    cin: int, cout: int, k: int = 3, stride: int = 1, groups: int = 1, act: type = nn.ReLU
) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(cin, cout, k, stride, k // 2, groups=groups, bias=False), nn.BatchNorm2d(cout), act()
    )


def images(*layers: nn.Module, channels: int = 8) -> Example:
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 5)]
    return nn.Sequential(*layers, *head), (torch.randn(1, 3, 17, 15),)


class SqueezeExcite(nn.Module):
    def __init__(self, c: int) -> None:
        super().__init__()
        self.down, self.up = nn.Conv2d(c, c // 2, 1), nn.Conv2d(c // 2, c, 1)

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.sigmoid(self.up(functional.silu(self.down(x.mean((2, 3), keepdim=True)))))


class Dense(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = conv(3, 4), conv(7, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.cat([x, self.a(x)], 1)
        return torch.cat([x, self.b(x)], 1)


class Inception(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = conv(3, 3, 1), conv(3, 3), conv(3, 2, 5)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([self.a(x), self.b(x), self.c(functional.max_pool2d(x, 3, 1, 1))], 1)


class ConvNext(nn.Module):
    def __init__(self, c: int) -> None:
        super().__init__()
        self.mix, self.norm = nn.Conv2d(c, c, 7, padding=3, groups=c), nn.LayerNorm(c)
        self.up, self.down = nn.Linear(c, 4 * c), nn.Linear(4 * c, c)

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(self.mix(x).permute(0, 2, 3, 1))
        return x + self.down(functional.gelu(self.up(y))).permute(0, 3, 1, 2)


class UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down, self.deep, self.up = conv(3, 4), conv(4, 8, stride=2), nn.ConvTranspose2d(8, 4, 2, 2)
        self.out = nn.Conv2d(8, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        first = self.down(x)
        return self.out(torch.cat([self.up(self.deep(first)), first], 1))


class Detector(nn.Module):
    """A head of boxes and scores over two scales."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.next = conv(3, 8, stride=2, act=nn.SiLU), conv(8, 8, stride=2, act=nn.SiLU)
        self.box, self.score = nn.Conv2d(8, 4, 1), nn.Conv2d(8, 3, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        near = self.stem(x)
        far = self.next(near)
        mixed = near + functional.interpolate(far, scale_factor=2, mode="nearest")
        boxes = [self.box(y).flatten(2) for y in (mixed, far)]
        scores = [self.score(y).flatten(2) for y in (mixed, far)]
        return torch.cat(boxes, 2).exp(), torch.cat(scores, 2).sigmoid()


class Attention(nn.Module):
    def __init__(self, width: int, heads: int, causal: bool = False) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        n, t, w = x.shape
        q, k, v = self.qkv(x).view(n, t, 3, self.heads, w // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.out(y.transpose(1, 2).reshape(n, t, w))


def block(width: int, heads: int, causal: bool = False) -> nn.Sequential:
    mlp = Residual(nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
    return nn.Sequential(Residual(nn.LayerNorm(width), Attention(width, heads, causal)), mlp)


class Text(nn.Module):
    def __init__(self, causal: bool) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(31, 16), nn.Parameter(torch.randn(9, 16))
        self.layers, self.out = nn.Sequential(block(16, 2, causal), block(16, 2, causal)), nn.Linear(16, 31)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.out(self.layers(self.words(tokens) + self.places))


class ViT(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patches, self.layers = nn.Conv2d(3, 16, 4, 4), nn.Sequential(block(16, 2), nn.LayerNorm(16))
        self.cls, self.out = nn.Parameter(torch.randn(1, 1, 16)), nn.Linear(16, 5)

    def forward(self, x: Tensor) -> Tensor:
        y = self.patches(x).flatten(2).transpose(1, 2)
        y = torch.cat([self.cls.expand(y.shape[0], -1, -1), y], 1)
        return self.out(self.layers(y)[:, 0])


class Conformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.wide, self.narrow = nn.LayerNorm(16), nn.Conv1d(16, 32, 1), nn.Conv1d(16, 16, 1)
        self.deep, self.bn, self.attention = (
            nn.Conv1d(16, 16, 5, padding=2, groups=16),
            nn.BatchNorm1d(16),
            block(16, 2),
        )

    def forward(self, x: Tensor) -> Tensor:
        y = functional.glu(self.wide(self.norm(x).transpose(1, 2)), 1)
        y = self.narrow(functional.silu(self.bn(self.deep(y))))
        return self.attention(x + y.transpose(1, 2))


class Recurrent(nn.Module):
    def __init__(self, cell: nn.Module, width: int) -> None:
        super().__init__()
        self.cell, self.out = cell, nn.Linear(width, 3)

    def forward(self, x: Tensor) -> Tensor:
        y, _ = self.cell(x)
        return self.out(y)


class Llama(nn.Module):
    """One decoder step: RMS norm, rotary embedding, a KV cache that comes in and goes out, SwiGLU."""

    def __init__(self, width: int = 16, heads: int = 2) -> None:
        super().__init__()
        self.heads, self.each = heads, width // heads
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.gate, self.up = nn.Linear(width, 32, bias=False), nn.Linear(width, 32, bias=False)
        self.down, self.norm, self.norm2 = (
            nn.Linear(32, width, bias=False),
            nn.RMSNorm(width),
            nn.RMSNorm(width),
        )

    def _turn(self, x: Tensor, place: Tensor) -> Tensor:
        steps = torch.arange(self.each // 2, dtype=torch.float32)
        angle = place.float() * 10000.0 ** (-2 * steps / self.each)
        a, b = x.chunk(2, -1)
        return torch.cat([a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()], -1)

    def forward(
        self, x: Tensor, keys: Tensor, values: Tensor, place: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        n, t, w = x.shape
        q, k, v = self.qkv(self.norm(x)).view(n, t, 3, self.heads, self.each).permute(2, 0, 3, 1, 4).unbind(0)
        keys = torch.cat([keys, self._turn(k, place)], 2)
        values = torch.cat([values, v], 2)
        y = functional.scaled_dot_product_attention(self._turn(q, place), keys, values)
        x = x + self.out(y.transpose(1, 2).reshape(n, t, w))
        y = self.norm2(x)
        return x + self.down(functional.silu(self.gate(y)) * self.up(y)), keys, values


class Mixer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patches, self.rows, self.columns = nn.Conv2d(3, 16, 4, 4), nn.Linear(9, 9), nn.Linear(16, 16)

    def forward(self, x: Tensor) -> Tensor:
        y = self.patches(x).flatten(2)
        y = y + functional.gelu(self.rows(y))
        return self.columns(y.transpose(1, 2)).mean(1)


class Autoencoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encode = nn.Sequential(nn.Linear(31, 8), nn.ELU(), nn.Linear(8, 4), nn.Tanh())
        self.decode = nn.Sequential(nn.Linear(4, 8), nn.LeakyReLU(), nn.Linear(8, 31), nn.Softplus())

    def forward(self, x: Tensor) -> Tensor:
        return self.decode(self.encode(x))


def _picture() -> tuple[Tensor, ...]:
    return (torch.randn(1, 3, 16, 16),)


def _series() -> tuple[Tensor, ...]:
    return (torch.randn(2, 5, 6),)


def _tokens() -> tuple[Tensor, ...]:
    return (torch.arange(9)[None] * 3 % 31,)


MODELS: dict[str, Callable[[], Example]] = {
    "vgg": lambda: images(conv(3, 8), nn.MaxPool2d(2), conv(8, 8)),
    "resnet": lambda: images(conv(3, 8, 7, 2), nn.MaxPool2d(3, 2, 1), Residual(conv(8, 8), conv(8, 8))),
    "mobilenet": lambda: images(
        conv(3, 8, stride=2, act=nn.ReLU6), conv(8, 8, groups=8, act=nn.Hardswish), conv(8, 8, 1)
    ),
    "efficientnet": lambda: images(
        conv(3, 8, act=nn.SiLU), conv(8, 8, 5, groups=8, act=nn.SiLU), SqueezeExcite(8)
    ),
    "densenet": lambda: images(Dense(), channels=11),
    "inception": lambda: images(Inception()),
    "shufflenet": lambda: images(conv(3, 8), nn.ChannelShuffle(2), conv(8, 8, groups=2)),
    "convnext": lambda: images(conv(3, 8, 4, 4), ConvNext(8)),
    "unet": lambda: (UNet(), _picture()),
    "detector": lambda: (Detector(), _picture()),
    "vit": lambda: (ViT(), _picture()),
    "mixer": lambda: (Mixer(), (torch.randn(1, 3, 12, 12),)),
    "bert": lambda: (Text(causal=False), _tokens()),
    "gpt": lambda: (Text(causal=True), _tokens()),
    "llama": lambda: (
        Llama(),
        (torch.randn(1, 1, 16), torch.randn(1, 2, 7, 8), torch.randn(1, 2, 7, 8), torch.tensor(7)),
    ),
    "conformer": lambda: (Conformer(), (torch.randn(1, 9, 16),)),
    "lstm": lambda: (Recurrent(nn.LSTM(6, 7, batch_first=True, bidirectional=True), 14), _series()),
    "gru": lambda: (Recurrent(nn.GRU(6, 7, batch_first=True, num_layers=2), 7), _series()),
    "rnn": lambda: (Recurrent(nn.RNN(6, 7, batch_first=True), 7), _series()),
    "autoencoder": lambda: (Autoencoder(), (torch.randn(3, 31),)),
}


def exported(name: str) -> torch.export.ExportedProgram:
    """An architecture with seeded weights, exported."""
    torch.manual_seed(3)
    module, inputs = MODELS[name]()
    return torch.export.export(module.eval(), inputs)
