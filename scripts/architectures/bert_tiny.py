# SPDX-License-Identifier: Apache-2.0
"""BERT-tiny (arXiv:1908.08962): two layers of width 128, with a classifier on the first token."""

import torch
from torch import Tensor, nn

from architectures.blocks import Attention, feed_forward

VOCABULARY, POSITIONS = 30522, 512
WIDTH, HEADS, LAYERS, CLASSES = 128, 2, 2, 2
EPSILON = 1e-12


class Layer(nn.Module):
    """Attention and a feed-forward network, each added to its input and normalised after."""

    def __init__(self) -> None:
        super().__init__()
        self.attention, self.feed = Attention(WIDTH, HEADS), feed_forward(WIDTH, 4 * WIDTH)
        self.norm1, self.norm2 = (nn.LayerNorm(WIDTH, EPSILON) for _ in range(2))

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """Return the layer's output for x [1, tokens, width], in the same shape."""
        x = self.norm1(x + self.attention(x, mask))
        return self.norm2(x + self.feed(x))


class BertTiny(nn.Module):
    """Embeddings, layers, pooler, classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.kinds = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(2, WIDTH)
        self.positions = nn.Embedding(POSITIONS, WIDTH)
        self.norm = nn.LayerNorm(WIDTH, EPSILON)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.pooler, self.classifier = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, CLASSES)

    def forward(self, tokens: Tensor, attend: Tensor) -> Tensor:
        """Return logits [1, 2] for token numbers and a mask of 0 and 1 (attended to), both int64 [1, n]."""
        positions = torch.arange(tokens.shape[1]).unsqueeze(0)
        x = self.tokens(tokens) + self.positions(positions) + self.kinds(torch.zeros_like(tokens))
        x = self.norm(x)
        mask = (1 - attend[:, None, None].float()) * torch.finfo(torch.float32).min
        for layer in self.layers:
            x = layer(x, mask)
        return self.classifier(torch.tanh(self.pooler(x[:, 0])))
