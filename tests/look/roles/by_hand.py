"""Asks a question of attention that is written down, entry by entry, and gives what the reader adds up."""

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from headwise.look.roles.plan import plan_of
from headwise.look.roles.reading import read_roles

# float32: a weight goes through a log and a softmax of up to 8 entries, and sums of up to 8 such
EXACT = 64 * torch.finfo(torch.float32).eps


class Written(nn.Module):
    """Attention whose weights and values are those written down for some texts, in any number of heads."""

    def __init__(self, maps, values=None):
        super().__init__()
        self.maps = [torch.as_tensor(each, dtype=torch.float32) for each in maps]  # [head query key]
        self.values = values

    def forward(self, numbers):
        weights = torch.stack([self.maps[number] for number in numbers])
        k = torch.eye(weights.shape[3]).expand_as(weights)
        q = weights.clamp(min=1e-30).log()  # the log of a weight is its score: softmax gives it back
        v = torch.ones_like(weights) if self.values is None else self.values.expand(len(numbers), -1, -1, -1)
        return functional.scaled_dot_product_attention(q, k, v, scale=1.0)


def evidence_of(texts, maps, *questions, values=None, output_weights=None, at_once=1):
    """By role, what was seen of texts with a map each, read so many ``at_once``."""
    plan, model, turn = plan_of(texts, questions, least_texts=1), Written(maps, values), []

    def batches():
        for start in range(0, len(texts), at_once):
            turn[:] = range(start, min(start + at_once, len(texts)))
            yield list(turn)

    reader, _ = read_roles(model, plan, lambda ids: model(turn), batches(), output_weights)
    return {each.role: each for each in reader.evidence(lambda found: np.array(found) % 2 == 0)}


def seen(text, weights, question, **options):
    """By role, of one text and a map of one head: rows, the sum of scores, and of what chance scores."""
    found = evidence_of([text], [[weights]], question, **options)
    return {
        role: (each.rows(), float(each.score[0, 0, 0]), float(each.control[0, 0, 0]))
        for role, each in found.items()
    }
