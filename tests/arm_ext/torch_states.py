# SPDX-License-Identifier: Apache-2.0
"""Small torch modules that change buffers of theirs."""

import torch
from torch import Tensor, nn
from torch.export import ExportedProgram
from torch.nn import functional

VOCABULARY, WIDTH, HEADS, LENGTH, LAYERS = 64, 32, 4, 16, 2
FRAME, HIDDEN = 9, 13


class StreamingLstm(nn.Module):
    """Two layers, a frame a call: [1, 1, FRAME] → [1, 1, HIDDEN]."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(FRAME, HIDDEN, num_layers=2, batch_first=True)
        self.register_buffer("h", torch.zeros(2, 1, HIDDEN))
        self.register_buffer("c", torch.zeros(2, 1, HIDDEN))

    def forward(self, x: Tensor) -> Tensor:
        y, (h, c) = self.lstm(x, (self.h, self.c))
        self.h.copy_(h)
        self.c.copy_(c)
        return y


class CachedAttention(nn.Module):
    """Causal attention of one token, whose key and value are written into the cache at its place."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        for name in ("keys", "values"):
            self.register_buffer(name, torch.zeros(1, HEADS, LENGTH, WIDTH // HEADS), persistent=False)

    def forward(self, x: Tensor, at: Tensor) -> Tensor:
        q, k, v = self.qkv(x).view(1, 1, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4).unbind(0)
        self.keys[:, :, at] = k
        self.values.index_copy_(2, at, v)
        seen = (torch.arange(LENGTH) <= at)[None, None, None]
        y = functional.scaled_dot_product_attention(q, self.keys, self.values, attn_mask=seen)
        return self.out(y.transpose(1, 2).reshape(1, 1, WIDTH))


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.before, self.attention, self.between = (
            nn.LayerNorm(WIDTH),
            CachedAttention(),
            nn.LayerNorm(WIDTH),
        )
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH))

    def forward(self, x: Tensor, at: Tensor) -> Tensor:
        x = x + self.attention(self.before(x), at)
        return x + self.mlp(self.between(x))


class Decoder(nn.Module):
    """A token [1, 1] and its place [1] → logits [1, 1, VOCABULARY]."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.layers, self.out = nn.ModuleList(Layer() for _ in range(LAYERS)), nn.Linear(WIDTH, VOCABULARY)

    def forward(self, token: Tensor, at: Tensor) -> Tensor:
        x = self.words(token) + self.places(at)
        for layer in self.layers:
            x = layer(x, at)
        return self.out(x)


def seeded(kind: type[nn.Module], *example: Tensor) -> tuple[nn.Module, ExportedProgram]:
    """A module, and its program, whose buffers are the module's."""
    torch.manual_seed(0)
    module = kind().eval()
    return module, torch.export.export(module, example)
