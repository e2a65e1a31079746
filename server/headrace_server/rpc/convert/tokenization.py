"""The requests of Tokenize and Detokenize."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace_server.rpc.convert.checks import check_model_name, check_token_ids, require
from headrace_server.rpc.convert.prompt import to_prompt

if TYPE_CHECKING:
    from headrace.v1 import inference_service_pb2 as pb
    from headrace_server.text.generation import Prompt

# The answer of Tokenize holds the text and up to 3 bytes per byte of it as ids; with this
# bound it stays below the 4 MiB that clients of every language receive by default.
MAX_TOKENIZE_BYTES: Final = 1024 * 1024
# 16 bytes of text per id stay below the same 4 MiB.
MAX_DETOKENIZE_IDS: Final = 256 * 1024


def to_tokenize_prompt(message: pb.TokenizeRequest) -> Prompt:
    """Check a request of Tokenize and return its prompt.

    Raises:
        InvalidFieldError: a field is missing, malformed or out of its range.
    """
    check_model_name(message.model, "model")
    field = message.WhichOneof("prompt")
    if field is not None:
        size = message.ByteSize()
        require(
            size <= MAX_TOKENIZE_BYTES,
            field,
            f"must be at most {MAX_TOKENIZE_BYTES} bytes to be tokenized in one call",
        )
    return to_prompt(message)


def to_detokenize_ids(message: pb.DetokenizeRequest) -> tuple[int, ...]:
    """Check a request of Detokenize and return its token ids.

    Raises:
        InvalidFieldError: a field is malformed or out of its range.
    """
    check_model_name(message.model, "model")
    require(
        len(message.token_ids) <= MAX_DETOKENIZE_IDS,
        "token_ids",
        f"must hold at most {MAX_DETOKENIZE_IDS} token ids",
    )
    check_token_ids(message.token_ids, "token_ids")
    return tuple(message.token_ids)
