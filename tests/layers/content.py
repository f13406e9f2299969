"""Every encoding that reads content, in all its forms, each beside its oracle; and a whole layer by loops."""

import torch

from headwise.layers import CoPE, DeBERTa, ForgetGate, MultiHeadAttention, Shaw, TransformerXL
from tests.core.cases import BATCH
from tests.layers.encodings import words
from tests.layers.oracles import content
from tests.oracle import columns, projected, side_by_side

MODEL_DIM, HEADS, KV_HEADS, HEAD_DIM, LENGTH = 12, 4, 2, 3, 6

# what each is built with
FORMS = {
    "shaw": lambda: Shaw(HEAD_DIM, 2),
    "shaw, per head": lambda: Shaw(HEAD_DIM, 3, max_ahead=1, heads=HEADS),
    "shaw, keys alone": lambda: Shaw(HEAD_DIM, 2, values=False),
    "transformer-xl": lambda: TransformerXL(MODEL_DIM, HEADS),
    "transformer-xl, odd": lambda: TransformerXL(7, HEADS, head_dim=HEAD_DIM, base=100.0),
    "transformer-xl, clipped": lambda: TransformerXL(MODEL_DIM, HEADS, max_distance=2),
    "transformer-xl, odd and clipped": lambda: TransformerXL(7, HEADS, head_dim=HEAD_DIM, max_distance=3),
    "deberta": lambda: DeBERTa(MODEL_DIM, HEADS, max_distance=3),
    "deberta, as printed": lambda: DeBERTa(MODEL_DIM, HEADS, max_distance=3, third_row="printed"),
    "deberta, buckets": lambda: DeBERTa(MODEL_DIM, HEADS, max_distance=9, buckets=4),
    "cope": lambda: CoPE(HEAD_DIM, max_position=3),
    "cope, one position": lambda: CoPE(HEAD_DIM, max_position=1),
    "forget gate": lambda: ForgetGate(MODEL_DIM, HEADS, gate_bias=1.0),
}


def form(name):
    """The encoding in float64, each parameter from a normal distribution of deviation 1/2."""
    encoding = FORMS[name]().double()
    for parameter in encoding.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return encoding


def layer_of(name, **kwargs):
    """A layer with that encoding, its weights and biases random."""
    layer = MultiHeadAttention(MODEL_DIM, HEADS, kv_heads=KV_HEADS, position=form(name), **kwargs)
    for projection in (layer.query, layer.key, layer.value, layer.output):
        torch.nn.init.normal_(projection.bias, std=0.5)
    return layer.double().eval()


def _of_head(table, head):
    return (table[head] if table.dim() == 3 else table).tolist()


def _projected_rows(encoding, projection, head):
    rows = projected(encoding.table.tolist(), projection.weight.tolist(), projection.bias.tolist())
    return columns(rows, head * HEAD_DIM, (head + 1) * HEAD_DIM)


def scores_of(encoding, head, q, k, at_q, at_k, visible, tokens):
    """All that the softmax is taken of, by the oracle's formula with this encoding's numbers."""
    if isinstance(encoding, Shaw):
        limits = encoding.max_distance, encoding.max_ahead
        return content.shaw_scores(q, k, at_q, at_k, _of_head(encoding.key_table, head), *limits)
    if isinstance(encoding, TransformerXL):
        weight = encoding.project.weight.tolist()[head * HEAD_DIM : (head + 1) * HEAD_DIM]
        vectors = encoding.content_vector[head].tolist(), encoding.position_vector[head].tolist()
        return content.transformer_xl_scores(
            q, k, at_q, at_k, weight, *vectors, encoding.max_distance, encoding.base
        )
    if isinstance(encoding, DeBERTa):
        rows = [_projected_rows(encoding, projection, head) for projection in (encoding.key, encoding.query)]
        how = {"buckets": encoding.buckets, "furthest": encoding.max_distance}
        return content.deberta_scores(q, k, at_q, at_k, *rows, printed=encoding.third_row == "printed", **how)
    if isinstance(encoding, CoPE):
        return content.cope_scores(q, k, at_q, at_k, encoding.table.tolist(), visible)
    opened = projected(tokens, encoding.gate.weight.tolist(), encoding.gate.bias.tolist())
    gates = [content.sigmoid(row[head]) for row in opened]
    return content.forget_scores(q, k, at_q, at_k, gates, visible)


def expected(layer, x, memory, at_q, at_k, visible):
    """The layer's output, a row of the batch and a head at a time; positions are lists of lists."""
    encoding, outputs = layer.position, []
    for row in range(x.shape[0]):
        sources = x[row].tolist(), memory[row].tolist(), memory[row].tolist()
        q, k, v = (
            projected(source, projection.weight.tolist(), projection.bias.tolist())
            for source, projection in zip(sources, (layer.query, layer.key, layer.value), strict=True)
        )
        sees, heads = visible[row].tolist(), []
        for head in range(HEADS):
            serving = head * KV_HEADS // HEADS
            q_h = columns(q, head * HEAD_DIM, (head + 1) * HEAD_DIM)
            k_h, v_h = (columns(part, serving * HEAD_DIM, (serving + 1) * HEAD_DIM) for part in (k, v))
            scores = scores_of(encoding, head, q_h, k_h, at_q[row], at_k[row], sees, sources[1])
            weights, output = content.attended(scores, v_h, sees)
            if "values" in encoding.acts_on:
                table = _of_head(encoding.value_table, head)
                limits = encoding.max_distance, encoding.max_ahead
                output = content.shaw_output(weights, v_h, at_q[row], at_k[row], table, *limits)
            heads.append(output)
        outputs.append(
            projected(side_by_side(heads), layer.output.weight.tolist(), layer.output.bias.tolist())
        )
    return torch.tensor(outputs, dtype=torch.float64)


# positions as the layer takes them: one list, or one for each row of the batch
ORDERS = {
    "from 0": torch.arange(LENGTH),
    "far": torch.arange(LENGTH) * 2 + 1003,
    "rows": torch.tensor([[3, 4, 4, 7, 8, 11], [0, 0, 0, 1, 2, 3]]),
    "shuffled": torch.tensor([[2, 0, 5, 1, 9, 4], [0, 1, 2, 3, 4, 5]]),
}


def lists(positions):
    """A list of positions for each row of the batch."""
    return positions.expand(BATCH, -1).tolist()


def tokens(length=LENGTH):
    return words(BATCH, length, MODEL_DIM)
