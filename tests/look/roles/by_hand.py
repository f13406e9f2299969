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
    """Attention whose weights are those written down for a text, in any number of heads, and so are its values."""

    def __init__(self, maps, values=None):
        super().__init__()
        self.maps, self.values = [torch.as_tensor(each, dtype=torch.float32) for each in maps], values

    def forward(self, number):
        weights = self.maps[number]
        heads, places, _ = weights.shape
        k = torch.eye(places).expand(1, heads, -1, -1)
        q = weights.clamp(min=1e-30).log()[None]  # the log of a weight is its score: softmax gives it back
        v = torch.ones(1, heads, places, places) if self.values is None else self.values
        return functional.scaled_dot_product_attention(q, k, v, scale=1.0)


def evidence_of(texts, maps, question, **options):
    """By role, what was seen of texts with a map each: ``[head][query][key]``."""
    values, output_weights = options.get("values"), options.get("output_weights")
    plan = plan_of(texts, [question], least_texts=1)
    model = Written(maps, values)
    places = {id(text): number for number, text in enumerate(texts)}
    numbers = range(len(texts))
    reader, _ = read_roles(model, plan, lambda text: model(places[id(text)]), numbers, output_weights)
    return {each.role: each for each in reader.evidence(lambda found: np.array(found) % 2 == 0)}


def seen(text, weights, question, **options):
    """By role, of one text and a map of one head: rows, the sum of scores, and of what chance scores."""
    found = evidence_of([text], [[weights]], question, **options)
    return {
        role: (each.rows(), float(each.score[0, 0, 0]), float(each.control[0, 0, 0]))
        for role, each in found.items()
    }
