"""Train a small Transformer on the bytes of a text, on a CPU, in about a minute, and let it write.

python examples/train_small.py shakespeare.txt
"""

import sys
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from headwise import (
    Decoder,
    LanguageModel,
    MultiHeadAttention,
    Rotary,
    Sample,
    TokenEmbedding,
    generate,
    make_blocks,
)

MODEL_DIM, HEADS, DEPTH, LENGTH, BATCH, BYTES = 128, 4, 3, 64, 32, 256


def loss_on(model: LanguageModel, text: Tensor) -> Tensor:
    """How surprised the model is by the next byte, in nats: the mean over some pieces of the text."""
    rows = text[torch.randint(len(text) - LENGTH, (BATCH, 1)) + torch.arange(LENGTH + 1)]
    return cross_entropy(model(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())


def main(path: str, steps: int = 300) -> LanguageModel:
    torch.manual_seed(0)
    text = torch.tensor(list(Path(path).read_bytes()))
    seen, unseen = text[: len(text) * 9 // 10], text[len(text) * 9 // 10 :]
    blocks = make_blocks(
        DEPTH, MODEL_DIM, attention=partial(MultiHeadAttention, heads=HEADS, position=Rotary())
    )
    model = LanguageModel(TokenEmbedding(BYTES, MODEL_DIM), Decoder(blocks, norm=nn.LayerNorm(MODEL_DIM)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for step in range(steps + 1):
        if step % max(steps // 10, 1) == 0:
            with torch.no_grad():
                print(f"step {step:4}  loss {loss_on(model, unseen):.2f} on what it is not trained on")
        optimizer.zero_grad()
        loss_on(model, seen).backward()
        optimizer.step()
        schedule.step()
    written = generate(model, torch.tensor([list(b"\n")]), 200, pick=Sample(0.8, top_k=20))
    print(bytes(written[0].tolist()).decode(errors="replace"))
    return model


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:3]))
