"""The published formulas, slow and in float64: what the code in the tables beside should compute."""

import math

import torch

F64 = torch.float64


def frequencies(dim, base=10000.0):
    """``base ** (-2 i / dim)``. Su et al. 2021, arXiv 2104.09864."""
    return torch.tensor([base ** (-2 * i / dim) for i in range(dim // 2)], dtype=F64)


def rotary(x, positions, theta, pairs="halves"):
    """Pair i turns by position * theta_i; dimensions beyond the pairs stay."""
    out, count = x.double().clone(), len(theta)
    for i, speed in enumerate(theta.tolist()):
        a, b = (i, i + count) if pairs == "halves" else (2 * i, 2 * i + 1)
        angle = positions.double() * speed
        out[..., a] = x[..., a].double() * angle.cos() - x[..., b].double() * angle.sin()
        out[..., b] = x[..., a].double() * angle.sin() + x[..., b].double() * angle.cos()
    return out


def ntk(dim, factor, base=10000.0):
    """The base times ``factor ** (d / (d - 2))``."""
    return base * factor ** (dim / (dim - 2))


def dynamic_ntk(dim, length, original, factor, base=10000.0):
    """The base grows once the length exceeds the original one."""
    return base if length <= original else ntk(dim, factor * length / original - (factor - 1), base)


def yarn(dim, factor, original, base=10000.0, fast=32.0, slow=1.0):
    """Fast pairs stay, slow ones are divided, a ramp between. Peng et al. 2023, arXiv 2309.00071."""

    def turns(count):
        return dim * math.log(original / (2 * math.pi * count)) / (2 * math.log(base))

    low, high = max(math.floor(turns(fast)), 0), min(math.ceil(turns(slow)), dim - 1)
    theta = frequencies(dim, base)
    ramp = ((torch.arange(dim // 2, dtype=F64) - low) / (high - low)).clamp(0, 1)
    return theta * (1 - ramp) + theta / factor * ramp


def yarn_gain(factor, weight=1.0):
    """``0.1 m ln s + 1``."""
    return 0.1 * weight * math.log(factor) + 1


def llama3(dim, factor, original, base=500000.0, low=1.0, high=4.0):
    """Short waves stay, long ones are divided, a blend between: the release code of Llama 3.1."""
    out = []
    for theta in frequencies(dim, base).tolist():
        turns = original * theta / (2 * math.pi)
        blend = min(max((turns - low) / (high - low), 0.0), 1.0)
        out.append((1 - blend) * theta / factor + blend * theta)
    return torch.tensor(out, dtype=F64)


def sinusoidal(length, dim):
    """Sines and cosines take turns. Vaswani et al. 2017, arXiv 1706.03762, section 3.5."""
    rows = []
    for p in range(length):
        waves = [p / 10000 ** (2 * (c // 2) / dim) for c in range(dim)]
        rows.append([math.sin(w) if c % 2 == 0 else math.cos(w) for c, w in enumerate(waves)])
    return torch.tensor(rows, dtype=F64).reshape(length, dim)


def alibi_slopes(heads):
    """Press, Smith and Lewis 2021, arXiv 2108.12409, and its code for other head counts."""
    power = 2 ** int(math.log2(heads))
    slopes = [2 ** (-8 * h / power) for h in range(1, power + 1)]
    finer = [2 ** (-8 * h / (2 * power)) for h in range(1, 2 * power + 1, 2)]
    return torch.tensor(slopes + finer[: heads - power], dtype=F64)


def alibi(heads, queries, keys):
    """The bias of the last ``queries`` of ``keys`` places."""
    at = torch.arange(keys - queries, keys)
    apart = (at[:, None] - torch.arange(keys)).abs()
    return -alibi_slopes(heads)[:, None, None] * apart


STARTS = {  # where each bucket begins, for 32 buckets and a largest distance of 128
    "causal": [*range(16), 16, 19, 21, 24, 27, 31, 35, 40, 46, 52, 59, 67, 77, 87, 99, 113],
    "one side": [*range(8), 8, 12, 16, 23, 32, 46, 64, 91],
}


def t5_bucket(key_minus_query, causal):
    """The bucket of each distance, from the table of starts. Raffel et al. 2020, arXiv 1910.10683."""
    starts = torch.tensor(STARTS["causal" if causal else "one side"])
    back = (-key_minus_query).clamp(min=0) if causal else key_minus_query.abs()
    bucket = (back[..., None] >= starts).sum(-1) - 1
    return bucket if causal else bucket + 16 * (key_minus_query > 0)


def attention(q, k, v, bias=0.0, visible=None, scale=None):
    """Softmax attention; bias and visible fit ``[batch heads query key]``; heads share in blocks."""
    q, k, v = q.double(), k.double(), v.double()
    share = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(share, 1), v.repeat_interleave(share, 1)
    scores = q @ k.mT * (q.shape[-1] ** -0.5 if scale is None else scale) + bias
    return (scores if visible is None else scores.masked_fill(~visible, -torch.inf)).softmax(-1) @ v


def causal(queries, keys):
    """True where a query, one of the last, may see a key."""
    return torch.ones(queries, keys, dtype=torch.bool).tril(keys - queries)


def fire(distance, query, c=0.1, limit=512.0):
    """``psi(m - n) / psi(max(L, m))``, psi(x) = log(c x + 1). Li et al. 2023, arXiv 2310.04418."""
    return (c * distance.double() + 1).log() / (c * query.double().clamp(min=limit) + 1).log()


def relative_scores(r, queries, keys):
    """``[query key]`` of ``r [query distance]``, whose column d is ``key - query = d - (queries - 1)``."""
    out = torch.empty(*r.shape[:-2], queries, keys, dtype=F64)
    for i in range(queries):
        for j in range(keys):
            out[..., i, j] = r[..., i, j - i + queries - 1]
    return out


def cope(scores, table, visible):
    """Positions count the gates between a key and its query. Golovneva et al. 2024, arXiv 2405.18719."""
    gates = scores.double().sigmoid() * visible
    at = gates.flip(-1).cumsum(-1).flip(-1).clamp(max=table.shape[-1] - 1)
    low, high = at.floor().long(), at.ceil().long()
    part = at - low
    return table.double().gather(-1, low) * (1 - part) + table.double().gather(-1, high) * part
