"""Encodings of a row and a column: Swin's table, BEiT's with a class token, log-spaced continuous bias."""

import pytest
import torch

from headwise.core import attention
from headwise.layers import BEiTTable, LogCPB, SwinTable
from headwise.layers.positions import log_cpb_network
from tests.layers.oracles import distances as expected

WINDOW = (4, 7)  # not square: rows and columns cannot be confused
HEADS = 3
PATCHES = torch.cartesian_prod(torch.arange(4), torch.arange(7))
TOKENS = torch.cat((torch.tensor([[-1, -1]]), PATCHES))


def bias(encoding, queries, keys, dtype=torch.float64):
    batch = queries.shape[0] if queries.dim() == 3 else 1
    q = torch.zeros(batch, encoding.heads, queries.shape[-2], 2, dtype=dtype)
    k = torch.zeros(batch, encoding.heads, keys.shape[-2], 2, dtype=dtype)
    return encoding.bias(q, k, queries, keys, None)


def swin(encoding, query, key):
    return encoding.table[expected.swin_row(query, key, encoding.window)].tolist()


def beit(encoding, query, key):
    return encoding.table[expected.beit_row(query, key, encoding.window)].tolist()


def log_cpb(encoding, query, key):
    weights = (encoding.hidden.weight, encoding.hidden.bias, encoding.out.weight)
    return expected.log_cpb(query, key, encoding.window, *(weight.tolist() for weight in weights))


FORMULAS = {
    "swin": (lambda: SwinTable(HEADS, WINDOW, std=1.0), swin, PATCHES),
    "beit": (lambda: BEiTTable(HEADS, WINDOW, std=1.0), beit, TOKENS),
    "log-cpb": (lambda: LogCPB(HEADS, WINDOW, width=8), log_cpb, PATCHES),
    "log-cpb, used in another window": (lambda: LogCPB(HEADS, (9, 1), width=8), log_cpb, PATCHES),
}
every_formula = pytest.mark.parametrize("name", FORMULAS)


@every_formula
def test_each_offset_has_its_row(name):
    """Exact for tables; a dozen terms of size 1 for the network, times 16."""
    build, formula, tokens = FORMULAS[name]
    encoding = build().double()
    rows = [[formula(encoding, query, key) for key in tokens.tolist()] for query in tokens.tolist()]
    table = torch.tensor(rows, dtype=torch.float64).permute(2, 0, 1)[None]
    torch.testing.assert_close(bias(encoding, tokens, tokens), table, rtol=0.0, atol=1e-13)


@every_formula
def test_some_queries_get_their_rows_and_rows_of_a_batch_their_own(name):
    build, _, tokens = FORMULAS[name]
    encoding = build().double()
    whole = bias(encoding, tokens, tokens)
    some = bias(encoding, tokens[5:8], tokens)
    torch.testing.assert_close(some, whole[:, :, 5:8], rtol=0.0, atol=1e-13)
    order = torch.arange(len(tokens)).flip(0)
    together = bias(encoding, torch.stack((tokens, tokens[order])), torch.stack((tokens, tokens[order])))
    torch.testing.assert_close(together[:1], whole, rtol=0.0, atol=1e-13)
    torch.testing.assert_close(together[1:], whole[:, :, order][..., order], rtol=0.0, atol=1e-13)


@pytest.mark.parametrize("name", ["swin", "log-cpb"])
def test_a_shift_of_rows_or_of_columns_alone_changes_nothing(name):
    encoding = FORMULAS[name][0]().double()
    whole = bias(encoding, PATCHES, PATCHES)
    for shift in ([5, 0], [0, -3], [4099, 17]):
        moved = PATCHES + torch.tensor(shift)
        torch.testing.assert_close(bias(encoding, moved, moved), whole, rtol=0.0, atol=1e-13)


def test_every_row_of_the_table_is_used():
    """Each of (2 * 4 - 1)(2 * 7 - 1) offsets occurs, and the three of the class token."""
    for encoding, tokens in ((SwinTable(1, WINDOW), PATCHES), (BEiTTable(1, WINDOW), TOKENS)):
        encoding.table.data = torch.arange(len(encoding.table)).float()[:, None]
        assert bias(encoding, tokens, tokens, torch.float32).unique().tolist() == list(
            range(len(encoding.table))
        )


@every_formula
@pytest.mark.parametrize("most", [2048, None])
def test_gradients_reach_every_parameter_in_blocks(monkeypatch, name, most):
    """Kept or computed anew, those of one dense matrix of scores, to rounding."""
    from headwise.core import blocks

    build, _, at = FORMULAS[name]
    encoding = build().double()
    q, k, v, weights = (torch.randn(1, HEADS, len(at), 4, dtype=torch.float64) for _ in range(4))

    def of_rows(q, k, rows, columns, visible):
        return encoding.bias(q, k, at[rows], at[columns], visible)

    parameters = list(encoding.parameters())
    dense = (q @ k.mT / 2 + encoding.bias(q, k, at, at, None)).softmax(-1) @ v
    exact = torch.autograd.grad((dense * weights).sum(), parameters)
    if most:
        for limit in ("_KEPT_ELEMENTS", "_RECOMPUTED_ELEMENTS", "_BLOCK_ELEMENTS"):
            monkeypatch.setattr(blocks, limit, most)
    found = torch.autograd.grad((attention(q, k, v, bias=of_rows) * weights).sum(), parameters)
    for one, other in zip(found, exact, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-10)
        assert other.any()


def test_the_network_is_asked_once_for_each_offset(monkeypatch):
    """As few as an image has offsets; in each, what a network asked for each pair says."""
    encoding = LogCPB(HEADS, WINDOW, width=8).double()
    asked, ask = [], log_cpb_network._asked
    monkeypatch.setattr(
        log_cpb_network,
        "_asked",
        lambda offsets, network: asked.append(offsets.shape) or ask(offsets, network),
    )
    by_offset = bias(encoding, PATCHES, PATCHES)
    assert asked == [(7 * 13, 2)]
    monkeypatch.setattr(log_cpb_network, "can_be_read", lambda offsets: False)
    torch.testing.assert_close(bias(encoding, PATCHES, PATCHES), by_offset, rtol=0.0, atol=1e-13)
    assert asked[1:] == [(1, 28, 28, 2)]
    monkeypatch.undo()
    apart = torch.tensor([[0, 0], [10**6, 0], [0, -(10**6)]])  # more offsets between than pairs
    assert bias(encoding, apart, apart).isfinite().all()


@pytest.mark.parametrize("new", [(4, 7), (6, 5), (2, 9)])
@pytest.mark.parametrize("build", [SwinTable, BEiTTable])
def test_a_table_of_another_window(build, new):
    """Bicubic between offsets, head by head; the class token's rows stay."""
    encoding = build(2, WINDOW, std=1.0).double()
    resized = encoding.resized(new)
    old, rows = (7, 13), (2 * new[0] - 1) * (2 * new[1] - 1)
    for head in range(2):
        drawn = expected.bicubic(
            encoding.table[: 7 * 13, head].tolist(), old, (2 * new[0] - 1, 2 * new[1] - 1)
        )
        exact = torch.tensor(drawn, dtype=torch.float64)
        torch.testing.assert_close(resized.table[:rows, head].detach(), exact, rtol=0.0, atol=1e-12)
    assert torch.equal(resized.table[rows:], encoding.table[7 * 13 :])
    assert resized.window == new
    assert encoding.window == WINDOW
