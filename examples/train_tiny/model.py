"""The policy of the example: a causal LM of about 300,000 random parameters, the same in every process."""

from pathlib import Path

import torch
from transformers import LlamaConfig, LlamaForCausalLM

TOKENIZER = Path(__file__).parents[2] / "policy" / "scripted" / "tokenizer.json"
VOCABULARY = 3753  # of that tokenizer, its three control tokens included
CONTEXT = 8192


def build() -> LlamaForCausalLM:
    """Seeded, in float32 and evaluation mode (no dropout), so that two processes compute the same numbers."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=CONTEXT,
        tie_word_embeddings=True,
        initializer_range=0.2,  # peaked enough for log-probs that differ
    )
    return LlamaForCausalLM(config).eval()


def log_probs(model: LlamaForCausalLM, ids: torch.Tensor, attention: torch.Tensor, positions: torch.Tensor):
    """[B, T] ids to [B, T - 1] log-probs of each id given the ones before it, at temperature 1."""
    logits = model(input_ids=ids, attention_mask=attention, position_ids=positions).logits[:, :-1].float()
    chosen = logits.gather(-1, ids[:, 1:, None]).squeeze(-1)
    return chosen - logits.logsumexp(-1)
