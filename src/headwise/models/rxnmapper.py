"""RXNMapper: an ALBERT encoder that reads chemical reactions, one layer of 8 heads of 32 applied 12 times."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from torch import Tensor

from headwise.models.packages import RXNMAPPER, need_transformers
from headwise.models.text import TextModel
from headwise.models.weights import built_without_touching_the_seed, fill, load_tensors

NAME = "rxnmapper"
_FOLDER = ("models", "transformers", "albert_heads_8_uspto_all_1310k")
ATOM = r"\[[^\]]+\]|Br|Cl|[BCNOSPFIbcnosp]"  # a bracketed one, or one of the organic subset
# one token of a SMILES string: an atom, a bond, a ring closure
_BONDS, _RINGS = r">>|[().=#+\\/:~@?>*$-]", r"%[0-9]{2}|[0-9]"
SMILES = f"{ATOM}|{_BONDS}|{_RINGS}"


def open_rxnmapper(attention: str) -> TextModel:
    """The encoder that maps atoms of products to atoms of reactants; its texts are reactions in SMILES.

    Raises HeadwiseError if the package or transformers is missing, or if its files lack some weights.
    """
    folder = RXNMAPPER.path(*_FOLDER, who=NAME)
    transformers = need_transformers()
    return TextModel(NAME, _network(folder, attention, transformers), _tokenizer(folder, transformers))


def _network(folder: Path, attention: str, transformers: Any) -> Any:  # noqa: ANN401
    facts = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    config = transformers.AlbertConfig(**facts, attn_implementation=attention)
    network = built_without_touching_the_seed(lambda: transformers.AlbertModel(config))
    fill(network, _weights(folder), who=NAME, lacking=("pooler",))
    return network.eval()


def _weights(folder: Path) -> dict[str, Tensor]:
    """Those of the encoder; the head that guesses masked tokens stays out."""
    stored = load_tensors(folder / "pytorch_model.bin")
    return {name.removeprefix("albert."): stored[name] for name in stored if name.startswith("albert.")}


def _tokenizer(folder: Path, transformers: Any) -> Any:  # noqa: ANN401
    """One token for each atom, bond and bracket; whatever is no SMILES becomes [UNK]."""
    from tokenizers import Regex, Tokenizer, pre_tokenizers, processors
    from tokenizers.models import WordLevel

    words = (folder / "vocab.txt").read_text(encoding="utf-8").splitlines()
    numbers = {word: number for number, word in enumerate(words)}
    backend = Tokenizer(WordLevel(numbers, unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.Split(Regex(SMILES), behavior="isolated")
    backend.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[(word, numbers[word]) for word in ("[CLS]", "[SEP]")]
    )
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=backend,
        model_input_names=["input_ids", "attention_mask"],
        **{f"{name.lower()}_token": f"[{name}]" for name in ("UNK", "CLS", "SEP", "PAD", "MASK")},
    )
