"""Small random models that read text, and what is known of them without headwise."""

import torch

from headwise.models import TextModel

SIZES = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}


class WithoutTokenTypes:
    """The tokenizer's face for models that know no token types."""

    def __init__(self, tokenizer):
        self.tokenizer = tokenizer

    def __call__(self, text, **options):
        return self.tokenizer(text, return_token_type_ids=False, **options)

    def __len__(self):
        return len(self.tokenizer)

    def __getattr__(self, name):
        return getattr(self.tokenizer, name)


def causal_model(minilm, **options):
    """A random Llama with a head that predicts the next of MiniLM's tokens."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(vocab_size=minilm.tokenizer.vocab_size, num_key_value_heads=2, **SIZES, **options)
    torch.manual_seed(0)
    return TextModel("tiny", LlamaForCausalLM(config).eval(), WithoutTokenTypes(minilm.tokenizer))
