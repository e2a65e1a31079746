"""Between the contract and the front's own types, with every check that needs no model. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from headrace.v1 import inference_service_pb2 as pb
from headrace.v1 import model_service_pb2, output_pb2, prompt_pb2, sampling_pb2, stopping_pb2
from headrace_server.errors import InvalidFieldError
from headrace_server.text.generation import (
    ChatMessage,
    ChatPrompt,
    Chunking,
    FinishReason,
    GenerationRequest,
    Prompt,
    Role,
    Sampling,
    Stopping,
    TextPrompt,
    TokenPrompt,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from google.protobuf.duration_pb2 import Duration

    from headrace_server.text.generation import Finish, TextDelta, Timing, Usage

# The label is repeated in log lines; these bounds keep a line short.
MAX_REQUEST_ID_CHARACTERS: Final = 128
# The longest Hub ids are shorter; an unknown name is repeated in the error.
MAX_MODEL_NAME_CHARACTERS: Final = 256
# A name is a few words of a template, not a place for content.
MAX_SPEAKER_NAME_CHARACTERS: Final = 128
# Rendering a template costs time per message; this bounds it to milliseconds.
MAX_CHAT_MESSAGES: Final = 4096
# Each new token is searched for every stop sequence.
MAX_STOP_SEQUENCES: Final = 16
MAX_STOP_SEQUENCE_CHARACTERS: Final = 256
MAX_STOP_TOKEN_IDS: Final = 64
MAX_CHUNK_TOKENS: Final = 1024
MAX_CHUNK_DELAY_SECONDS: Final = 60.0
MAX_DURATION_SECONDS: Final = 24 * 60 * 60.0
# The answer of Tokenize holds the text and up to 3 bytes per byte of it as ids; with this
# bound it stays below the 4 MiB that clients of every language receive by default.
MAX_TOKENIZE_BYTES: Final = 1024 * 1024
# 16 bytes of text per id stay below the same 4 MiB.
MAX_DETOKENIZE_IDS: Final = 256 * 1024
MAX_PAGE_SIZE: Final = 1000
# Responses of Generate are cut to stay below 1 MiB: a character has at most 4 bytes and a
# token id at most 5, so that these two together make 832 KiB.
MAX_RESPONSE_CHARACTERS: Final = 128 * 1024
MAX_RESPONSE_TOKEN_IDS: Final = 64 * 1024

_ROLES: Final[Mapping[int, Role]] = {
    prompt_pb2.ROLE_SYSTEM: "system",
    prompt_pb2.ROLE_USER: "user",
    prompt_pb2.ROLE_ASSISTANT: "assistant",
}
_FINISH_REASONS: Final[Mapping[FinishReason, stopping_pb2.FinishReason.ValueType]] = {
    FinishReason.END_OF_TEXT: stopping_pb2.FINISH_REASON_END_OF_TEXT,
    FinishReason.STOP_SEQUENCE: stopping_pb2.FINISH_REASON_STOP_SEQUENCE,
    FinishReason.MAX_OUTPUT_TOKENS: stopping_pb2.FINISH_REASON_MAX_OUTPUT_TOKENS,
    FinishReason.CONTEXT_LENGTH: stopping_pb2.FINISH_REASON_CONTEXT_LENGTH,
    FinishReason.TIME_LIMIT: stopping_pb2.FINISH_REASON_TIME_LIMIT,
}


def to_generation_request(message: pb.GenerateRequest, request_id: str) -> GenerationRequest:
    """Check a request and turn it into the front's own type.

    Args:
        message: as it arrived.
        request_id: the server's own id.

    Raises:
        InvalidFieldError: a field is missing, malformed or out of its range.
    """
    check_model_name(message.model, "model")
    _check_label(message.request_id)
    output = message.output
    return GenerationRequest(
        request_id=request_id,
        prompt=to_prompt(message),
        sampling=_to_sampling(message.sampling),
        stopping=_to_stopping(message.stopping),
        want_text=output.text if output.HasField("text") else True,
        want_token_ids=output.token_ids,
        chunking=_to_chunking(output.chunking),
        max_queue_seconds=_to_limit(message, "max_queue_duration"),
        max_seconds=_to_limit(message, "max_duration"),
    )


def to_prompt(message: pb.GenerateRequest | pb.TokenizeRequest) -> Prompt:
    """Turn the prompt of a request into the front's own type.

    Raises:
        InvalidFieldError: there is no prompt or it is malformed.
    """
    match message.WhichOneof("prompt"):
        case "text":
            return TextPrompt(message.text)
        case "token_ids":
            ids = message.token_ids.ids
            _require(len(ids) > 0, "token_ids.ids", "must hold at least one token id")
            _check_token_ids(ids, "token_ids.ids")
            return TokenPrompt(tuple(ids))
        case "chat":
            return _to_chat(message.chat)
        case _:
            raise InvalidFieldError("prompt", "Set one of text, token_ids and chat as the prompt.")


def to_tokenize_prompt(message: pb.TokenizeRequest) -> Prompt:
    """Check a request of Tokenize and return its prompt.

    Raises:
        InvalidFieldError: a field is missing, malformed or out of its range.
    """
    check_model_name(message.model, "model")
    field = message.WhichOneof("prompt")
    if field is not None:
        size = message.ByteSize()
        _require(
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
    _require(
        len(message.token_ids) <= MAX_DETOKENIZE_IDS,
        "token_ids",
        f"must hold at most {MAX_DETOKENIZE_IDS} token ids",
    )
    _check_token_ids(message.token_ids, "token_ids")
    return tuple(message.token_ids)


def check_list_models(message: model_service_pb2.ListModelsRequest) -> None:
    """Check a request of ListModels: the one model is the whole first page.

    Raises:
        InvalidFieldError: a field is out of its range.
    """
    _require(
        0 <= message.page_size <= MAX_PAGE_SIZE, "page_size", f"must be from 0 to {MAX_PAGE_SIZE}"
    )
    _require(
        not message.page_token, "page_token", "must be empty, or a token that this server gave"
    )


def check_model_name(name: str, field: str) -> None:
    """Check the length of a model's name; empty means the served model.

    Raises:
        InvalidFieldError: it is too long.
    """
    _require(
        len(name) <= MAX_MODEL_NAME_CHARACTERS,
        field,
        f"must have at most {MAX_MODEL_NAME_CHARACTERS} characters",
    )


def is_label(text: str) -> bool:
    """Tell whether a text is short and plain enough to name a request in headers and logs."""
    return 0 < len(text) <= MAX_REQUEST_ID_CHARACTERS and text.isascii() and text.isprintable()


def to_responses(delta: TextDelta, *, want_token_ids: bool) -> Iterator[pb.GenerateResponse]:
    """Turn a delta into a response; a very long one into several, each below 1 MiB."""
    text, token_ids = delta.text, delta.token_ids if want_token_ids else ()
    while len(text) > MAX_RESPONSE_CHARACTERS or len(token_ids) > MAX_RESPONSE_TOKEN_IDS:
        response = pb.GenerateResponse()
        piece = response.deltas.add()
        piece.text = text[:MAX_RESPONSE_CHARACTERS]
        piece.token_ids.extend(token_ids[:MAX_RESPONSE_TOKEN_IDS])
        text, token_ids = text[MAX_RESPONSE_CHARACTERS:], token_ids[MAX_RESPONSE_TOKEN_IDS:]
        yield response
    response = pb.GenerateResponse()
    piece = response.deltas.add()
    if text:
        piece.text = text
    if token_ids:
        piece.token_ids.extend(token_ids)
    if delta.finish is not None:
        _set_finish(piece.finish, delta.finish)
    if delta.usage is not None:
        _set_usage(response.usage, delta.usage)
    if delta.timing is not None:
        _set_timing(response.timing, delta.timing)
    yield response


def _set_finish(message: stopping_pb2.Finish, finish: Finish) -> None:
    message.reason = _FINISH_REASONS[finish.reason]
    if finish.stop_sequence is not None:
        message.stop_sequence = finish.stop_sequence
    elif finish.stop_token_id is not None:
        message.stop_token_id = finish.stop_token_id


def _set_usage(message: pb.Usage, usage: Usage) -> None:
    message.prompt_token_count = usage.prompt_token_count
    message.output_token_count = usage.output_token_count


def _set_timing(message: pb.Timing, timing: Timing) -> None:
    _set_duration(message.queue, timing.queue_seconds)
    if timing.first_token_seconds is not None:
        _set_duration(message.first_token, timing.first_token_seconds)
    _set_duration(message.total, timing.total_seconds)


def _set_duration(message: Duration, seconds: float) -> None:
    message.FromMicroseconds(round(seconds * 1e6))


def _to_chat(chat: prompt_pb2.Chat) -> ChatPrompt:
    count = len(chat.messages)
    _require(count > 0, "chat.messages", "must hold at least one message")
    _require(
        count <= MAX_CHAT_MESSAGES,
        "chat.messages",
        f"must hold at most {MAX_CHAT_MESSAGES} messages",
    )
    _require(
        not (chat.continue_final_message and chat.add_generation_prompt),
        "chat.add_generation_prompt",
        "must not be true when continue_final_message is true",
    )
    opens_answer = (
        chat.add_generation_prompt
        if chat.HasField("add_generation_prompt")
        else not chat.continue_final_message
    )
    return ChatPrompt(
        messages=tuple(_to_chat_message(m, i) for i, m in enumerate(chat.messages)),
        add_generation_prompt=opens_answer,
        continue_final_message=chat.continue_final_message,
    )


def _to_chat_message(message: prompt_pb2.ChatMessage, index: int) -> ChatMessage:
    role = _ROLES.get(message.role)
    if role is None:
        raise InvalidFieldError(
            f"chat.messages[{index}].role",
            f"chat.messages[{index}].role must be ROLE_SYSTEM, ROLE_USER or ROLE_ASSISTANT.",
        )
    _require(
        len(message.name) <= MAX_SPEAKER_NAME_CHARACTERS,
        f"chat.messages[{index}].name",
        f"must have at most {MAX_SPEAKER_NAME_CHARACTERS} characters",
    )
    return ChatMessage(role=role, content=message.content, name=message.name or None)


def _to_sampling(message: sampling_pb2.Sampling) -> Sampling:
    temperature = message.temperature if message.HasField("temperature") else None
    top_p = message.top_p if message.HasField("top_p") else None
    top_k = message.top_k if message.HasField("top_k") else None
    min_p = message.min_p if message.HasField("min_p") else None
    # Each comparison is false for NaN, so that NaN is refused too.
    _require(
        temperature is None or 0 <= temperature <= 2,
        "sampling.temperature",
        "must be from 0 to 2",
    )
    _require(top_p is None or 0 < top_p <= 1, "sampling.top_p", "must be above 0 and at most 1")
    _require(top_k is None or top_k >= 0, "sampling.top_k", "must be at least 0")
    _require(min_p is None or 0 <= min_p <= 1, "sampling.min_p", "must be from 0 to 1")
    return Sampling(
        temperature=temperature,
        top_p=top_p,
        top_k=top_k,
        min_p=min_p,
        seed=message.seed if message.HasField("seed") else None,
    )


def _to_stopping(message: stopping_pb2.Stopping) -> Stopping:
    maximum = message.max_output_tokens if message.HasField("max_output_tokens") else None
    minimum = message.min_output_tokens
    _require(maximum is None or maximum >= 0, "stopping.max_output_tokens", "must be at least 0")
    _require(minimum >= 0, "stopping.min_output_tokens", "must be at least 0")
    _require(
        maximum is None or minimum <= maximum,
        "stopping.min_output_tokens",
        "must be at most max_output_tokens",
    )
    _check_stop_sequences(message.stop_sequences)
    _require(
        len(message.stop_token_ids) <= MAX_STOP_TOKEN_IDS,
        "stopping.stop_token_ids",
        f"must hold at most {MAX_STOP_TOKEN_IDS} token ids",
    )
    _check_token_ids(message.stop_token_ids, "stopping.stop_token_ids")
    return Stopping(
        max_output_tokens=maximum,
        min_output_tokens=minimum,
        stop_sequences=tuple(message.stop_sequences),
        stop_token_ids=tuple(message.stop_token_ids),
        ignore_end_of_text=message.ignore_end_of_text,
        include_stop_in_output=message.include_stop_in_output,
    )


def _check_stop_sequences(sequences: Sequence[str]) -> None:
    _require(
        len(sequences) <= MAX_STOP_SEQUENCES,
        "stopping.stop_sequences",
        f"must hold at most {MAX_STOP_SEQUENCES} texts",
    )
    for index, sequence in enumerate(sequences):
        _require(
            1 <= len(sequence) <= MAX_STOP_SEQUENCE_CHARACTERS,
            f"stopping.stop_sequences[{index}]",
            f"must have from 1 to {MAX_STOP_SEQUENCE_CHARACTERS} characters",
        )


def _to_chunking(message: output_pb2.Chunking) -> Chunking:
    field = "output.chunking"
    min_tokens = message.min_tokens if message.HasField("min_tokens") else 1
    _require(
        1 <= min_tokens <= MAX_CHUNK_TOKENS,
        f"{field}.min_tokens",
        f"must be from 1 to {MAX_CHUNK_TOKENS}",
    )
    max_delay_seconds = None
    if message.HasField("max_delay"):
        max_delay_seconds = _to_seconds(message.max_delay, f"{field}.max_delay")
        _require(
            0 <= max_delay_seconds <= MAX_CHUNK_DELAY_SECONDS,
            f"{field}.max_delay",
            f"must be from 0 s to {MAX_CHUNK_DELAY_SECONDS:.0f} s",
        )
    _require(
        not (message.whole and (message.HasField("min_tokens") or message.HasField("max_delay"))),
        f"{field}.whole",
        "must not be true together with min_tokens or max_delay",
    )
    return Chunking(min_tokens, max_delay_seconds, message.whole)


def _to_limit(
    message: pb.GenerateRequest, field: Literal["max_queue_duration", "max_duration"]
) -> float | None:
    if not message.HasField(field):
        return None
    seconds = _to_seconds(getattr(message, field), field)
    _require(
        0 < seconds <= MAX_DURATION_SECONDS, field, "must be above 0 s and at most 24 h (86400 s)"
    )
    return seconds


def _to_seconds(duration: Duration, field: str) -> float:
    """Turn a Duration into seconds; protobuf itself lets any two integers pass."""
    seconds, nanos = duration.seconds, duration.nanos
    _require(
        -1_000_000_000 < nanos < 1_000_000_000 and seconds * nanos >= 0,
        field,
        "must have nanos below 1,000,000,000 and of the sign of its seconds",
    )
    return seconds + nanos / 1e9


def _check_label(label: str) -> None:
    _require(
        not label or is_label(label),
        "request_id",
        f"must have at most {MAX_REQUEST_ID_CHARACTERS} printable ASCII characters",
    )


def _check_token_ids(ids: Sequence[int], field: str) -> None:
    """Refuse negative ids; the vocabulary bounds them from above, and only a model has one."""
    if ids and min(ids) < 0:
        index = next(i for i, token_id in enumerate(ids) if token_id < 0)
        raise InvalidFieldError(f"{field}[{index}]", f"{field}[{index}] must be at least 0.")


def _require(condition: bool, field: str, rule: str) -> None:
    if not condition:
        raise InvalidFieldError(field, f"{field} {rule}.")
