"""Finds in a vocabulary the control tokens to fill in the middle of a text, and lays prompts out.

What is trained is a matter of the family of a model, and its control tokens are the sign of the
family. Sources of the forms and orders:

* StarCoder, also Granite, Refact, StableCode: https://arxiv.org/abs/2305.06161 and the card of
  bigcode/starcoder on the Hub; SantaCoder's hyphens: the card of bigcode/santacoder.
* Qwen2.5-Coder, also Granite 4: examples/Qwen2.5-Coder-fim.py of QwenLM/Qwen3-Coder, which ends at
  all of the tokens below; CodeGemma: https://ai.google.dev/gemma/docs/codegemma/prompt-structure.
* Code Llama: `infilling_prompt_tokens` and `encode_infilling` in llama/generation.py and
  llama/tokenizer.py of meta-llama/codellama; the suffix has no space that a tokenizer would add.
* DeepSeek-Coder: "Code Insertion" in README.md of deepseek-ai/DeepSeek-Coder.
* Codestral: `encode_fim` of mistralai/mistral-common.
* Seed-Coder: https://arxiv.org/abs/2506.03524.
"""

# ruff: noqa: RUF001  # the bars of DeepSeek's tokens are wide
from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


@dataclass(frozen=True, slots=True)
class InfillFamily:
    """The control tokens of a family.

    Args:
        prefix: goes before the text before the gap.
        suffix: goes before the text after the gap.
        middle: goes before the answer; empty where nothing does.
        suffix_first: whether the text after the gap comes first.
        beginning: the token that its prompts begin with, where the tokenizer's file has no such
            rule; empty for none.
        ends: what a model says after the answer, beside its own end of text. It says one
            of the tokens above as well, where it goes on with another text.
    """

    prefix: str
    suffix: str
    middle: str
    suffix_first: bool = False
    beginning: str = ""
    ends: tuple[str, ...] = ()

    @property
    def control_tokens(self) -> tuple[str, ...]:
        """All that may not come from the text of a caller, and that end an answer."""
        return tuple(filter(None, (self.prefix, self.suffix, self.middle, *self.ends)))


FAMILIES: Final = (
    InfillFamily(
        "<|fim_prefix|>",
        "<|fim_suffix|>",
        "<|fim_middle|>",
        beginning="<bos>",
        ends=(
            "<|endoftext|>",
            "<|fim_pad|>",
            "<|repo_name|>",
            "<|file_sep|>",
            "<|file_separator|>",
            "<|filename|>",
        ),
    ),
    InfillFamily(
        "<fim_prefix>",
        "<fim_suffix>",
        "<fim_middle>",
        ends=(
            "<|endoftext|>",
            "<fim_pad>",
            "<repo_name>",
            "<reponame>",
            "<file_sep>",
            "<filename>",
        ),
    ),
    InfillFamily(
        "<fim-prefix>", "<fim-suffix>", "<fim-middle>", ends=("<|endoftext|>", "<fim-pad>")
    ),
    InfillFamily("▁<PRE>", "▁<SUF>", "▁<MID>", beginning="<s>", ends=("▁<EOT>",)),
    InfillFamily(
        "<｜fim▁begin｜>",
        "<｜fim▁hole｜>",
        "<｜fim▁end｜>",
        beginning="<｜begin▁of▁sentence｜>",
        ends=("<｜end▁of▁sentence｜>", "<|EOT|>"),
    ),
    InfillFamily(
        "[PREFIX]", "[SUFFIX]", "", suffix_first=True, beginning="<s>", ends=("[MIDDLE]", "</s>")
    ),
    InfillFamily("<[fim-prefix]>", "<[fim-suffix]>", "<[fim-middle]>", suffix_first=True),
)
"""The families that are known; a model is of the first whose tokens it has."""

CONTROL_TOKENS: Final = frozenset(token for family in FAMILIES for token in family.control_tokens)
"""The control tokens of all families, which some tokenizers do not mark as such."""


@dataclass(frozen=True, slots=True)
class InfillFormat:
    """How a model is asked to fill in.

    Args:
        family: whose form it is.
        prefix_id, suffix_id, middle_id: its tokens; None where the family has none.
        beginning_id: see `InfillFamily.beginning`; None where the model has no such token.
        end_token_ids: what ends an answer, beside the model's own end of text.
    """

    family: InfillFamily
    prefix_id: int
    suffix_id: int
    middle_id: int | None
    beginning_id: int | None
    end_token_ids: frozenset[int]

    def token_ids(
        self, prefix: Sequence[int], suffix: Sequence[int], beginning: Sequence[int] | None
    ) -> list[int]:
        """Lay a prompt out.

        Args:
            prefix: the tokens before the gap.
            suffix: those after it.
            beginning: what the tokenizer adds to the start of a text; None leaves it out, also
                that of the family.
        """
        before = [self.prefix_id, *prefix]
        after = [self.suffix_id, *suffix]
        parts = [*after, *before] if self.family.suffix_first else [*before, *after]
        if self.middle_id is not None:
            parts.append(self.middle_id)
        return [*self._beginning(beginning), *parts]

    def text(self, prefix: str, suffix: str) -> str:
        """Return what is tokenized, with the names of the control tokens."""
        family = self.family
        before, after = family.prefix + prefix, family.suffix + suffix
        parts = (after, before) if family.suffix_first else (before, after)
        return "".join(parts) + family.middle

    def _beginning(self, beginning: Sequence[int] | None) -> Sequence[int]:
        if beginning is None or beginning or self.beginning_id is None:
            return beginning or ()
        return (self.beginning_id,)


def find_infill_format(token_id: Callable[[str], int | None]) -> InfillFormat | None:
    """Return how a model is asked to fill in; None where its vocabulary has no tokens for it.

    Args:
        token_id: finds the id of a token; None where the vocabulary does not have it.
    """
    for family in FAMILIES:
        prefix_id, suffix_id = token_id(family.prefix), token_id(family.suffix)
        middle_id = token_id(family.middle) if family.middle else None
        if prefix_id is None or suffix_id is None or (family.middle and middle_id is None):
            continue
        ends = map(token_id, family.control_tokens)
        return InfillFormat(
            family,
            prefix_id,
            suffix_id,
            middle_id,
            token_id(family.beginning) if family.beginning else None,
            frozenset(end for end in ends if end is not None),
        )
    return None
