"""Writes the files beside it: ``python -m headrace_server.engine.simulated_model.build``.

Run it after a change of `SPECIAL_TOKENS` and commit what it writes.
"""

from __future__ import annotations

import json
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from headrace_server.engine.simulated_vocabulary import END_OF_TEXT, END_OF_TURN, SPECIAL_TOKENS

_CHAT_TEMPLATE = """\
{%- for message in messages -%}
{{- '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}
{{- '<|im_start|>assistant\\n' -}}
{%- endif -%}
"""


def build() -> dict[str, str]:
    """The content of each file by its name."""
    tokenizer_config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": SPECIAL_TOKENS[END_OF_TURN - 256],
        "clean_up_tokenization_spaces": False,
    }
    generation_config = {"eos_token_id": [END_OF_TURN, END_OF_TEXT]}
    return {
        "tokenizer.json": _tokenizer().to_str(pretty=True) + "\n",
        "tokenizer_config.json": json.dumps(tokenizer_config, indent=2) + "\n",
        "generation_config.json": json.dumps(generation_config, indent=2) + "\n",
        "chat_template.jinja": _CHAT_TEMPLATE,
    }


def _tokenizer() -> Tokenizer:
    """A byte-level tokenizer without merges: the id of a byte is its value."""
    vocabulary = {character: byte for byte, character in _byte_characters().items()}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in SPECIAL_TOKENS])
    return tokenizer


def _byte_characters() -> dict[int, str]:
    """The printable character that stands for each byte in byte-level vocabularies (GPT-2's)."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    characters = {byte: chr(byte) for byte in printable}
    return characters | {byte: chr(256 + index) for index, byte in enumerate(others)}


if __name__ == "__main__":
    for name, content in build().items():
        (Path(__file__).parent / name).write_text(content, encoding="utf-8")
