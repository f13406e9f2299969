"""A gate of each token that says how much of everything before it is kept: decay that depends on content."""

from __future__ import annotations

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.functional import linear, logsigmoid

from headwise.core.autocast import without_autocast
from headwise.core.blocks import wide
from headwise.core.errors import HeadwiseError
from headwise.core.shapes import check_positive
from headwise.layers.positions.counting import counted
from headwise.layers.positions.encoding import PositionalEncoding


class ForgetGate(PositionalEncoding):
    """``bias_h(i, j) = sum of log f_h(x_l)`` over the tokens l after j up to i.

    The gate is ``f_h(x) = sigmoid(w_h . x + b_h)``, and ``x`` the layer's input. Only tokens that the query
    sees count, so padding changes nothing; a key after the query is not decayed, as it is made for causal
    attention. Lin et al. 2025, arXiv 2503.02130, section 3.

    A cache keeps ``features(x)``, the logarithm of each token's gate, beside its key: the sums are made anew
    for each query, from the query backwards, so they are exact where weights are large, and nothing that
    grows is kept. Raises HeadwiseError if the layer's heads or the features do not fit.

    >>> from headwise.core import Causal
    >>> from headwise.layers import MultiHeadAttention
    >>> layer = MultiHeadAttention(16, heads=2, position=ForgetGate(16, heads=2), mask=Causal())
    >>> layer(torch.randn(1, 5, 16)).shape
    torch.Size([1, 5, 16])
    """

    acts_on = ("scores",)
    relative = True
    any_length = True
    cacheable = True
    source = "Lin et al. 2025, arXiv 2503.02130, section 3"
    per_head = (("gate.weight", 0), ("gate.bias", 0))

    def __init__(self, model_dim: int, heads: int, *, gate_bias: float = 0.0) -> None:
        super().__init__()
        check_positive(model_dim, who="ForgetGate", what="model_dim")
        check_positive(heads, who="ForgetGate", what="heads")
        self.gate_bias = gate_bias
        self.gate = nn.Linear(model_dim, heads)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the gates' weights anew (Glorot and Bengio 2010); their bias is ``gate_bias``."""
        nn.init.xavier_uniform_(self.gate.weight)
        nn.init.constant_(self.gate.bias, self.gate_bias)

    def features(self, x: Float[Tensor, "batch length model_dim"]) -> Float[Tensor, "batch heads length"]:
        if x.shape[-1] != self.gate.in_features:
            raise HeadwiseError(
                who="ForgetGate",
                what="x",
                expected=f"[batch, length, model_dim={self.gate.in_features}]",
                got=str(list(x.shape)),
                why="Each gate has a weight for each dimension of the layer's input",
                do=f"Build ForgetGate({x.shape[-1]}, heads={self.gate.out_features})",
            )
        with without_autocast(x.device):
            x = wide(x)
            opened: Tensor = linear(x, self.gate.weight.to(x), self.gate.bias.to(x))
            return logsigmoid(opened).mT

    def bias(
        self,
        q: Float[Tensor, "batch heads query head_dim"],
        k: Float[Tensor, "batch kv_heads key head_dim"],
        query_positions: Int[Tensor, "*batch query"],
        key_positions: Int[Tensor, "*batch key"],
        visible: Bool[Tensor, "#batch #heads query key"] | None,
        features: Float[Tensor, "batch heads key"] | None = None,
    ) -> Float[Tensor, "batch heads query key"]:
        shape = [k.shape[0], q.shape[1], k.shape[2]]
        if features is None or list(features.shape) != shape:
            raise HeadwiseError(
                who="ForgetGate",
                what="features",
                expected=f"[batch, heads, key] = {shape}",
                got="None" if features is None else str(list(features.shape)),
                why="Each head has a gate for each key's token",
                do=f"Build ForgetGate(model_dim, heads={q.shape[1]}), and pass features(x) of the keys",
            )
        gates = features[:, :, None].expand(-1, -1, q.shape[2], -1)
        through, own = counted(gates, query_positions, key_positions, visible)
        return through - own

    def extra_repr(self) -> str:
        return f"gate_bias={self.gate_bias:g}"
