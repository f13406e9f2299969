"""Attention circuits with weights set by hand, whose heads are known to do exactly one thing.

A token stream holds, side by side: which token, which position, what layer 0 wrote, what layer 1 wrote, and
what idle heads wrote, which nobody reads. Each layer has two heads or more. Those that are not the circuit's
are idle: they look at every key evenly. ``start`` is token 0, which is meant for the first place only.
"""

import torch
from torch import nn
from torch.nn import functional

SHARP = 60.0  # exp(-60) is lost beside 1 in float32, and in float64 too
PREVIOUS_TOKEN, DUPLICATE_TOKEN, INDUCTION = "0.1", "0.1", "1.0"


class Heads(nn.Module):
    """Causal heads; all weights are zero until a circuit sets them."""

    def __init__(self, width, head_dim, heads):
        super().__init__()
        self.num_heads = heads
        self.query, self.key, self.value = (nn.Linear(width, heads * head_dim, bias=False) for _ in range(3))
        self.output = nn.Linear(heads * head_dim, width, bias=False)
        for parameter in self.parameters():
            nn.init.zeros_(parameter)

    def forward(self, x):
        q, k, v = (
            part(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
            for part in (self.query, self.key, self.value)
        )
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.output(mixed.transpose(1, 2).flatten(2))


class Circuit(nn.Module):
    """Tokens to the stream; ``logits`` of the next token are what layer 1 wrote."""

    def __init__(self, vocabulary, length, layers, heads):
        super().__init__()
        self.vocabulary, self.length = vocabulary, length
        starts = torch.tensor([vocabulary, length, vocabulary, vocabulary, vocabulary]).cumsum(0).tolist()
        self.token, self.position = slice(0, starts[0]), slice(starts[0], starts[1])
        self.wrote = [slice(starts[1], starts[2]), slice(starts[2], starts[3])]
        self.spare = slice(starts[3], starts[4])
        self.head_dim = vocabulary + length
        self.layers = nn.ModuleList(Heads(starts[4], self.head_dim, heads) for _ in range(layers))

    def forward(self, tokens):
        x = torch.zeros(*tokens.shape, self.spare.stop, dtype=self.layers[0].query.weight.dtype)
        x[..., self.token] = functional.one_hot(tokens, self.vocabulary).to(x.dtype)
        x[..., self.position] = torch.eye(self.length, dtype=x.dtype)[: tokens.shape[1]]
        for layer in self.layers:
            x = x + layer(x)
        return x

    def logits(self, tokens):
        return SHARP * self(tokens)[..., self.wrote[1]]

    @torch.no_grad()
    def match(self, layer, head, pairs):
        """A head's score: for each pair of parts of the stream and a factor, their agreement, sharply."""
        row = head * self.head_dim
        for asked, told, factor in pairs:
            size = asked.stop - asked.start
            self.layers[layer].query.weight[row : row + size, asked] = (
                factor * SHARP * self.head_dim**0.5 * torch.eye(size)
            )
            self.layers[layer].key.weight[row : row + size, told] = torch.eye(size)
            row += size

    @torch.no_grad()
    def look_back(self, layer, head, steps):
        """A head's score: it looks so many places back; where there is none, evenly at all."""
        self.match(layer, head, [(self.position, self.position, 1.0)])
        row = head * self.head_dim  # a key tells the place so many after its own
        told = self.layers[layer].key.weight[row : row + self.length]
        told.copy_(told.roll(steps, dims=0))
        told[:steps] = 0.0

    @torch.no_grad()
    def copy(self, layer, head, target):
        """What a head moves: the token it looks at, into ``target``, and nowhere else."""
        row, eye = head * self.head_dim, torch.eye(self.vocabulary)
        self.layers[layer].output.weight[:, row : row + self.head_dim] = 0.0
        self.layers[layer].value.weight[row : row + self.vocabulary, self.token] = eye
        self.layers[layer].output.weight[target, row : row + self.vocabulary] = eye


def uniform(vocabulary=6, length=12, layers=1, heads=2):
    """Every head looks at every visible key evenly: entropy log(i + 1)."""
    circuit = Circuit(vocabulary, length, layers, heads)
    for layer in range(layers):
        for head in range(heads):
            circuit.copy(layer, head, circuit.spare)
    return circuit


def previous_token(vocabulary=6, length=12, layers=1, heads=2):
    """Head 0.1 looks at the token before, and only there."""
    circuit = uniform(vocabulary, length, layers, heads)
    circuit.look_back(0, 1, 1)
    circuit.copy(0, 1, circuit.wrote[0])
    return circuit


def duplicate_token(vocabulary=6, length=12):
    """Head 0.1 looks at earlier places of the same token; where there is none, evenly at all."""
    circuit = uniform(vocabulary, length)
    circuit.match(0, 1, [(circuit.token, circuit.token, 1.0), (circuit.position, circuit.position, -1.0)])
    return circuit


def induction(vocabulary=12, length=24, heads=2):
    """Head 0.1 says which token came before; head 1.0 looks behind the last place of this one, and copies."""
    circuit = previous_token(vocabulary, length, layers=2, heads=heads)
    circuit.match(1, 0, [(circuit.token, circuit.wrote[0], 1.0)])
    circuit.copy(1, 0, circuit.wrote[1])
    return circuit


def repeated(vocabulary=12, rows=2):
    """A start token, then every other token in a random order, then the same again."""
    once = torch.stack([torch.randperm(vocabulary - 1) + 1 for _ in range(rows)])
    return torch.cat([torch.zeros(rows, 1, dtype=torch.long), once, once], dim=1)
