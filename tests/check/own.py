"""Layers and models as people write them, for the checks to find out how to call."""

import torch
from torch import nn


class Attention(nn.Module):
    """Self-attention that looks ``ahead`` places beyond its own: 0 is causal, None is everything."""

    def __init__(self, width=32, heads=4, ahead=0, back=None):
        super().__init__()
        self.heads, self.ahead, self.back = heads, ahead, back
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def attend(self, x, visible):
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        own = torch.ones(length, length, dtype=torch.bool)
        own = own if self.ahead is None else own.tril(self.ahead)
        own = own if self.back is None else own.triu(1 - self.back)
        scores = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(~(own & visible), -torch.inf)
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, length, width))

    def forward(self, x):
        return self.attend(x, torch.tensor(True))


class Shows(Attention):
    """True in the mask of keys shows."""

    def forward(self, x, mask=None):
        return self.attend(x, torch.tensor(True) if mask is None else mask[:, None, None, :].bool())


class Hides(Attention):
    """True in the mask of keys hides, whatever its name says."""

    def forward(self, x, attention_mask=None):
        return self.attend(
            x, torch.tensor(True) if attention_mask is None else ~attention_mask[:, None, None]
        )


class Ignores(Attention):
    """Takes a mask and forgets it."""

    def forward(self, x, key_padding_mask=None):
        return super().forward(x)


class Swaps(Attention):
    """Reads the rows of a mask as its columns."""

    def forward(self, x, mask=None):
        return self.attend(x, torch.tensor(True) if mask is None else mask.mT)


class Pairs(Attention):
    """Takes a mask of pairs ``[batch 1 query key]``, added to the scores in its own way."""

    def forward(self, x, attn_mask=None):
        if attn_mask is not None and attn_mask.dim() != 4:
            raise ValueError("attn_mask has four axes")
        return self.attend(x, torch.tensor(True) if attn_mask is None else attn_mask)


class Both(Attention):
    """Gives its weights too."""

    def forward(self, x, need_weights=False):
        output = super().forward(x)
        return (output, output.new_zeros(1)) if need_weights else (output, None)


class Tiny(nn.Module):
    """A model of tokens with positions in a table, and with its logits only where it is asked for a loss."""

    def __init__(self, ahead=0, wraps=False):
        super().__init__()
        self.block_size, self.wraps = 20, wraps
        self.tokens, self.places = nn.Embedding(11, 16), nn.Embedding(20, 16)
        self.attention, self.head = Attention(16, 2, ahead), nn.Linear(16, 11)

    def forward(self, idx, targets=None):
        places = torch.arange(idx.shape[1])
        if not self.wraps and idx.shape[1] > self.block_size:
            raise ValueError(
                f"a sequence of {idx.shape[1]} is longer than the block size of {self.block_size}"
            )
        x = self.tokens(idx) + self.places(places % self.block_size)
        x = x + self.attention(x)
        return self.head(x if targets is not None else x[:, [-1]]), None
