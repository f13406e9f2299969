"""The tests bite: each classic fault of attention code, planted, is caught by the test named beside it.

Every line plants one fault by replacing one function, runs one test, and expects it to fail; without the
fault the same test passes.
"""

from typing import Any, NamedTuple

import pytest
import torch

from headwise.core import Causal, Padding, SlidingWindow, attention_weights, block, blocks
from headwise.core.masks import Fused
from headwise.layers import (
    ALiBi,
    Attended,
    MultiHeadAttention,
    Rotary,
    Sandwich,
    Sinusoidal,
    SwinTable,
    T5Bias,
)
from headwise.layers.positions import angles, kerple, learned, log_cpb_network, pairs, rotary, scaled
from tests.core import test_attention, test_empty_rows, test_masks, test_memory
from tests.layers import (
    test_added_encodings,
    test_claims,
    test_distances,
    test_multi_head_attention,
    test_tables_and_waves,
    test_windows,
)
from tests.layers import test_rotary as rotary_tests

right_probabilities, right_waves = blocks.probabilities, angles.cosines_and_sines
right_attend, right_rotation, right_bias = MultiHeadAttention._heads, Rotary._waves, ALiBi.bias
right_bucket, right_distance, right_asked = T5Bias.bucket, kerple._distance, log_cpb_network._asked
right_sandwich, right_grid = Sandwich.bias, learned.resized_grid
right_table, right_frequencies = Sinusoidal.table, angles.frequencies


class Fault(NamedTuple):
    """What is replaced by what, and the test that must notice, with its arguments."""

    place: Any
    name: str
    wrong: Any
    test: Any
    arguments: tuple


def tiled_product(x, y):
    """Head h reads kv head ``h % kv_heads``."""
    return x @ y.repeat(1, x.shape[1] // y.shape[1], 1, 1)


def softmax_of_nothing(q, k, how, block):
    scores = blocks.grouped_product(q * how.scale, k.mT)
    return scores.masked_fill(~block.visible(how.mask, q.device), -torch.inf).softmax(-1)


def output_from_weights(self, x, **kwargs):
    call = self._project(x, None, kwargs.get("mask"), None, None)
    weights = attention_weights(call.q, call.k, **call.how)
    heads = weights @ call.v.repeat_interleave(self.heads // self.kv_heads, dim=1)
    return Attended(self.output(heads.transpose(1, 2).flatten(-2)), weights)


def slopes_of_powers_only(self, device=None, dtype=torch.float32):
    return 2.0 ** (-8.0 / self.heads * torch.arange(1, self.heads + 1, device=device, dtype=dtype))


def counted_by_columns(self, by_row, by_column):
    rows, columns = self.window
    return (by_column + columns - 1) * (2 * rows - 1) + by_row + rows - 1


FAULTS = {
    "causal: a token does not see itself": Fault(
        Causal, "visible", lambda self, q, k: k < q[:, None],
        test_masks.test_visible_is_what_the_oracle_says, ("causal", 6, 6),
    ),
    "causal: a token sees the next one": Fault(
        Causal, "visible", lambda self, q, k: k <= q[:, None] + 1,
        test_masks.test_visible_is_what_the_oracle_says, ("causal", 6, 6),
    ),
    "causal: counted from the top-left": Fault(
        Causal, "fused", lambda self, queries, keys: Fused(causal=True),
        test_attention.test_against_the_reference, (2, 6, "causal", "no bias"),
    ),
    "window: W + 1 keys": Fault(
        SlidingWindow, "visible", lambda self, q, k: (k <= q[:, None]) & (k >= q[:, None] - self.window),
        test_masks.test_visible_is_what_the_oracle_says, ("window 3", 6, 6),
    ),
    "window: reach one key short": Fault(
        SlidingWindow, "reach", lambda self, first, last, keys: (max(first - self.window + 2, 0), last + 1),
        test_masks.test_reach_never_leaves_out_a_key_that_is_seen, ("window 3", 6, 6),
    ),
    "padding: inverted": Fault(
        Padding, "fused", lambda self, queries, keys: Fused(keep=~self.keep),
        test_masks.test_what_a_fused_kernel_is_told_means_the_same, ("padding", 6, 6),
    ),
    "padding: positions count the padding": Fault(
        Padding, "positions", lambda self: torch.arange(self.keep.shape[1]).expand_as(self.keep),
        test_masks.test_positions_of_padded_rows_count_real_tokens_from_zero, (),
    ),
    "empty row: NaN": Fault(
        blocks, "probabilities", softmax_of_nothing,
        test_empty_rows.test_zeros_forward_and_backward,
        ("far other value width", "explicit", False, torch.float64),
    ),
    "scale: applied twice": Fault(
        blocks, "probabilities", lambda q, k, how, block: right_probabilities(q * how.scale, k, how, block),
        test_attention.test_grouped_heads_and_other_value_widths, (2, 150, None),
    ),
    "grouped queries: tiled, not in blocks": Fault(
        blocks, "grouped_product", tiled_product,
        test_attention.test_grouped_heads_and_other_value_widths, (2, 150, None),
    ),
    "memory: the whole matrix at once": Fault(
        block, "_FEWEST_ROWS", 512,
        test_memory.test_no_tensor_is_as_large_as_the_matrix, ("bias function", 8),
    ),
    "alibi: far is near": Fault(
        ALiBi, "bias", lambda *args: -right_bias(*args),
        test_added_encodings.test_alibi_against_the_reference, (8,),
    ),
    "alibi: slopes of six heads": Fault(
        ALiBi, "slopes", slopes_of_powers_only,
        test_added_encodings.test_alibi_slopes_against_the_reference, (6,),
    ),
    "alibi: a bias in half precision": Fault(
        ALiBi, "bias", lambda *args: right_bias(*args).bfloat16().float(),
        test_added_encodings.test_alibi_tells_every_distance_apart_in_half_precision, (torch.bfloat16,),
    ),
    "t5: before is after": Fault(
        T5Bias, "bucket", lambda self, difference: right_bucket(self, -difference),
        test_distances.test_t5_buckets_of_any_size, (7, 9, True),
    ),
    "kerple: distances in half precision": Fault(
        kerple, "_distance", lambda *args: right_distance(*args).bfloat16(),
        test_distances.test_half_precision_rounds_no_distance, ("kerple, log", torch.bfloat16),
    ),
    "fire: over the smaller of position and threshold": Fault(
        torch, "maximum", torch.minimum,
        test_distances.test_fire_reads_far_queries_on_their_own_scale, (),
    ),
    "sandwich: ratios count from 0": Fault(
        Sandwich, "bias", lambda *args: right_sandwich(*args).roll(1, dims=1),
        test_distances.test_every_entry_is_its_formula, ("sandwich",),
    ),
    "swin: rows and columns swapped": Fault(
        SwinTable, "_offset_row", counted_by_columns,
        test_windows.test_each_offset_has_its_row, ("swin",),
    ),
    "log-cpb: an offset without its sign": Fault(
        log_cpb_network, "_asked", lambda offsets, network: right_asked(offsets.abs(), network),
        test_windows.test_each_offset_has_its_row, ("log-cpb",),
    ),
    "resized: as if the grid were square": Fault(
        learned, "resized_grid", lambda table, grid, new, smooth: right_grid(table, grid[::-1], new, smooth),
        test_tables_and_waves.test_a_grid_that_is_not_square, ((6, 10),),
    ),
    "sinusoidal: cosine first": Fault(
        Sinusoidal, "table", lambda *args: right_table(*args).unflatten(-1, (-1, 2)).flip(-1).flatten(-2),
        test_added_encodings.test_sinusoidal_against_the_reference, (8, 10000.0),
    ),
    "rotary: the key does not turn": Fault(
        Rotary, "rotate", lambda self, q, k, at, key_at: (self.turn(q, at), k),
        rotary_tests.test_queries_and_keys_both_turn, ("halves",),
    ),
    "rotary: the key does not turn, by shift": Fault(
        Rotary, "rotate", lambda self, q, k, at, key_at: (self.turn(q, at), k),
        test_claims.test_a_relative_one_does_not_notice_a_shift, ("rotary, halves", 17),
    ),
    "rotary: the other way round": Fault(
        Rotary, "_waves", lambda *args: (right_rotation(*args)[0], -right_rotation(*args)[1]),
        rotary_tests.test_against_the_reference, ("halves", 4, 10000.0),
    ),
    "rotary: another base": Fault(
        scaled, "frequencies", lambda dim, base, device=None: right_frequencies(dim, base + 1, device),
        rotary_tests.test_against_the_reference, ("halves", 4, 10000.0),
    ),
    "rotary: the other pairs": Fault(
        pairs, "_turn_halves", pairs._turn_neighbours,
        rotary_tests.test_against_the_reference, ("halves", 4, 10000.0),
    ),
    "rotary: positions in bfloat16": Fault(
        rotary, "wide_positions", lambda at: at.bfloat16().double(),
        rotary_tests.test_the_error_does_not_grow_with_the_position, ("halves", torch.bfloat16, 250),
    ),
    "dropout: in evaluation too": Fault(
        MultiHeadAttention, "_heads", lambda self, call: right_attend(self.train(), call),
        test_multi_head_attention.test_dropout_in_training_only, ("none",),
    ),
    "weights: asking for them changes the output": Fault(
        MultiHeadAttention, "with_weights", output_from_weights,
        test_multi_head_attention.test_asking_for_weights_leaves_the_output_alone_to_the_last_bit,
        ("none", None, True),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_caught(monkeypatch, name):
    fault = FAULTS[name]
    run(fault)
    monkeypatch.setattr(fault.place, fault.name, fault.wrong)
    with pytest.raises(AssertionError):
        run(fault)


def run(fault):
    """The test as pytest runs it, with a monkeypatch of its own where it asks for one."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        asks = "monkeypatch" in fault.test.__code__.co_varnames
        fault.test(*((monkeypatch,) if asks else ()), *fault.arguments)
