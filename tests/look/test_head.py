"""Names of heads: text and back, and nothing guessed."""

import pytest

from headwise.core import HeadwiseError
from headwise.look import Head
from headwise.look.removal.head import as_heads

SPELLED = {
    "3.5": Head(3, 5),
    "0.0": Head(0, 0),
    " 12.10\n": Head(12, 10),
    "encoder.layer.0.attention:5": Head("encoder.layer.0.attention", 5),
    "model.layers.3.self_attn:08": Head("model.layers.3.self_attn", 8),
    "shared#3:1": Head("shared#3", 1),
    "3:5": Head("3", 5),
    ":2": Head("", 2),
}


@pytest.mark.parametrize("text", SPELLED)
def test_text_names_a_head_and_a_head_its_text(text):
    head = Head.parse(text)
    assert head == SPELLED[text]
    assert Head.parse(str(head)) == head


@pytest.mark.parametrize(
    "text",
    ["", "3", "3.", ".5", "3.5.1", "-1.2", "3.-5", "a.5", "layer.3.5", "layer:", "a:b:3", "a b:3", "3,5",
     "1e1.2", "attn:x", "\u0663.\u0665"],
)  # fmt: skip
def test_nonsense_is_refused(text):
    with pytest.raises(HeadwiseError, match="a head must be a layer and a number from 0"):
        Head.parse(text)


@pytest.mark.parametrize(
    "parts", [(-1, 0), (0, -1), (True, 0), (0, False), (0.0, 1), ("a:b", 0), (0, "1"), (None, 0)]
)
def test_heads_that_cannot_be(parts):
    with pytest.raises(HeadwiseError, match="a head must be"):
        Head(*parts)


def test_what_a_caller_may_write():
    want = (Head(3, 5), Head("attn", 0))
    assert as_heads(["3.5", ("attn", 0)]) == as_heads(iter(want)) == as_heads({"3.5": 1, "attn:0": 2}) == want
    assert as_heads("3.5") == as_heads((3, 5)) == as_heads([Head(3, 5), "3.5"]) == want[:1]
    assert as_heads(("3.5", "attn:0")) == want
    assert as_heads([]) == ()


@pytest.mark.parametrize("heads", [3, None, [3], [(3, 5, 1)], [None], "3.5 4.1", [[3, 5]], (3, 5, 7)])
def test_what_a_caller_may_not_write(heads):
    with pytest.raises(HeadwiseError, match="a head must be"):
        as_heads(heads)
