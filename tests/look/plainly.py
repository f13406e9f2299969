"""What a recording must say, computed in float64 from dense probabilities, row by row, without headwise."""

import numpy as np

PARTS = 64
DISTANCES = 32
TWO_SIDED = ("distance", "spread", "self", "previous", "next")


class Text:
    """One text's probabilities in one layer, ``heads query key``, without padding.

    ``visible`` says which keys a query may see at all, by default those that get any weight in any head.
    ``place`` is where the first query stands among the keys; None where it stands nowhere, as in
    cross-attention. ``special`` marks keys.
    """

    def __init__(self, p, *, visible=None, place=0, special=None):
        self.p = np.asarray(p, dtype=np.float64)
        self.visible = (self.p > 0).any(0) if visible is None else np.asarray(visible)
        self.place, self.special = place, special

    def rows(self, statistic):
        """The statistic of each row, ``heads query``, NaN where a row does not have it."""
        heads, queries, keys = self.p.shape
        found = np.full((heads, queries), np.nan)
        for head in range(heads):
            for query in range(queries):
                if self.visible[query].any():
                    found[head, query] = self._row(statistic, self.p[head, query], query, keys)
        return found

    def _row(self, statistic, p, query, keys):
        if statistic in TWO_SIDED and self.place is None:
            return np.nan
        if statistic == "special" and self.special is None:
            return np.nan
        slot = 0 if self.place is None else query + self.place
        away = np.abs(np.arange(keys) - slot)
        some = p[p > 0]
        mean = (p * away).sum() / max(p.sum(), 1e-300)
        return {
            "entropy": lambda: -(some * np.log(some)).sum(),
            "confidence": lambda: p.max(),
            "distance": lambda: mean,
            "spread": lambda: np.sqrt((p * (away - mean) ** 2).sum() / p.sum()),
            "self": lambda: p[slot],
            "previous": lambda: p[slot - 1] if slot >= 1 else np.nan,
            "next": lambda: p[slot + 1] if slot + 1 < keys else np.nan,
            "first": lambda: p[0],
            "special": lambda: p[np.asarray(self.special)].sum(),
        }[statistic]()


def mean(texts, statistic):
    """The mean over all rows of all texts, for each head; NaN if no row has it."""
    rows = np.concatenate([text.rows(statistic) for text in texts], axis=1)
    counts = (~np.isnan(rows)).sum(1)
    return np.where(counts > 0, np.nansum(rows, axis=1) / np.maximum(counts, 1), np.nan)


def received(texts):
    """What each key gets from all rows, and how many rows see it."""
    longest = max(text.p.shape[2] for text in texts)
    total, could = np.zeros((texts[0].p.shape[0], longest)), np.zeros(longest)
    for text in texts:
        keys = text.p.shape[2]
        total[:, :keys] += text.p.sum(1)
        could[:keys] += text.visible.sum(0)
    return total, could


def overview(texts):
    """Mass from each 64th of the queries to each 64th of the keys, and the rows in each 64th."""
    total, rows = np.zeros((texts[0].p.shape[0], PARTS, PARTS)), np.zeros(PARTS)
    for text in texts:
        _, queries, keys = text.p.shape
        first, last = (text.place, text.place + queries) if text.place is not None else (0, queries)
        for query in range(queries):
            part = (first + query) * PARTS // last
            rows[part] += 1
            for key in range(keys):
                total[:, part, key * PARTS // keys] += text.p[:, query, key]
    return total, rows


def by_distance(texts):
    """The mass that the average row gives to distances 0, 1, 2 to 3, 4 to 7 and so on."""
    total, rows = np.zeros((texts[0].p.shape[0], DISTANCES)), 0
    for text in texts:
        for query in range(text.p.shape[1]):
            rows += bool(text.visible[query].any())
            for key in range(text.p.shape[2]):
                total[:, abs(query + text.place - key).bit_length()] += text.p[:, query, key]
    return total / rows
