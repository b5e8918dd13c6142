"""A small GPT (decoder-only transformer, pre-norm); its tokens are the letters of a text."""

import torch
import torch.nn.functional as F
from torch import nn


class Attention(nn.Module):
    """Each place looks at itself and at those before it, and at no later one: that is what causal means."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.query_key_value = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        batch, length, width = x.shape
        parts = self.query_key_value(x).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)  # each [batch, heads, length, width of a head]
        seen = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.out(seen.transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    """Attention lets the places exchange what they know; the MLP then thinks at each place by itself."""

    def __init__(self, width, heads):
        super().__init__()
        self.norm, self.attention = nn.LayerNorm(width), Attention(width, heads)
        self.mlp = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        x = x + self.attention(self.norm(x))
        return x + self.mlp(x)


class GPT(nn.Module):
    """From letters as numbers [batch, length] to logits of the letter after each [batch, length, letters]."""

    def __init__(self, letters, length, width=128, heads=4, blocks=5):
        super().__init__()
        self.letters, self.length = letters, length  # those that it knows, and how many it sees at once
        self.letter, self.place = nn.Embedding(len(letters), width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(blocks)))
        self.norm, self.out = nn.LayerNorm(width), nn.Linear(width, len(letters))
        self.apply(start_small)

    def forward(self, tokens):
        x = self.letter(tokens) + self.place(torch.arange(tokens.shape[1], device=tokens.device))
        return self.out(self.norm(self.blocks(x)))


def start_small(module):
    """GPT-2's first weights: small ones, so that at first all letters are nearly equally likely."""
    if isinstance(module, (nn.Linear, nn.Embedding)):
        nn.init.normal_(module.weight, std=0.02)


def loss_of(model, pieces):
    """The mean loss over pieces of text [batch, length + 1]: how well is each next letter guessed?"""
    logits = model(pieces[:, :-1])
    return F.cross_entropy(logits.flatten(0, 1), pieces[:, 1:].flatten())


@torch.no_grad()
def write(model, start, count):
    """`start` and `count` letters more, on one line; each is drawn by its probability, somewhat sharpened."""
    tokens, draw = [model.letters.index(letter) for letter in start], torch.Generator().manual_seed(0)
    for _ in range(count):
        logits = model(torch.tensor([tokens[-model.length:]]))[0, -1]
        tokens.append(torch.multinomial((logits / 0.8).softmax(0), 1, generator=draw).item())
    return "".join(model.letters[token] for token in tokens).replace("\n", " ")
