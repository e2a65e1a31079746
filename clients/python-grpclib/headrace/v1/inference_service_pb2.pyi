import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from headrace.v1 import constraint_pb2 as _constraint_pb2
from headrace.v1 import logprobs_pb2 as _logprobs_pb2
from headrace.v1 import output_pb2 as _output_pb2
from headrace.v1 import prompt_pb2 as _prompt_pb2
from headrace.v1 import sampling_pb2 as _sampling_pb2
from headrace.v1 import stopping_pb2 as _stopping_pb2
from headrace.v1 import tool_pb2 as _tool_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class GenerateRequest(_message.Message):
    __slots__ = ("model", "request_id", "text", "token_ids", "chat", "sampling", "stopping", "output", "max_queue_duration", "max_duration", "constraint", "priority", "cache_salt", "add_special_tokens", "suffix")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    CHAT_FIELD_NUMBER: _ClassVar[int]
    SAMPLING_FIELD_NUMBER: _ClassVar[int]
    STOPPING_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    MAX_QUEUE_DURATION_FIELD_NUMBER: _ClassVar[int]
    MAX_DURATION_FIELD_NUMBER: _ClassVar[int]
    CONSTRAINT_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    CACHE_SALT_FIELD_NUMBER: _ClassVar[int]
    ADD_SPECIAL_TOKENS_FIELD_NUMBER: _ClassVar[int]
    SUFFIX_FIELD_NUMBER: _ClassVar[int]
    model: str
    request_id: str
    text: str
    token_ids: _prompt_pb2.TokenIds
    chat: _prompt_pb2.Chat
    sampling: _sampling_pb2.Sampling
    stopping: _stopping_pb2.Stopping
    output: _output_pb2.Output
    max_queue_duration: _duration_pb2.Duration
    max_duration: _duration_pb2.Duration
    constraint: _constraint_pb2.Constraint
    priority: int
    cache_salt: str
    add_special_tokens: bool
    suffix: str
    def __init__(self, model: _Optional[str] = ..., request_id: _Optional[str] = ..., text: _Optional[str] = ..., token_ids: _Optional[_Union[_prompt_pb2.TokenIds, _Mapping]] = ..., chat: _Optional[_Union[_prompt_pb2.Chat, _Mapping]] = ..., sampling: _Optional[_Union[_sampling_pb2.Sampling, _Mapping]] = ..., stopping: _Optional[_Union[_stopping_pb2.Stopping, _Mapping]] = ..., output: _Optional[_Union[_output_pb2.Output, _Mapping]] = ..., max_queue_duration: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., max_duration: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., constraint: _Optional[_Union[_constraint_pb2.Constraint, _Mapping]] = ..., priority: _Optional[int] = ..., cache_salt: _Optional[str] = ..., add_special_tokens: _Optional[bool] = ..., suffix: _Optional[str] = ...) -> None: ...

class GenerateResponse(_message.Message):
    __slots__ = ("prompt", "deltas", "usage", "timing", "prompt_logprobs")
    PROMPT_FIELD_NUMBER: _ClassVar[int]
    DELTAS_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    TIMING_FIELD_NUMBER: _ClassVar[int]
    PROMPT_LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    prompt: PromptInfo
    deltas: _containers.RepeatedCompositeFieldContainer[CandidateDelta]
    usage: Usage
    timing: Timing
    prompt_logprobs: _containers.RepeatedCompositeFieldContainer[_logprobs_pb2.TokenLogprobs]
    def __init__(self, prompt: _Optional[_Union[PromptInfo, _Mapping]] = ..., deltas: _Optional[_Iterable[_Union[CandidateDelta, _Mapping]]] = ..., usage: _Optional[_Union[Usage, _Mapping]] = ..., timing: _Optional[_Union[Timing, _Mapping]] = ..., prompt_logprobs: _Optional[_Iterable[_Union[_logprobs_pb2.TokenLogprobs, _Mapping]]] = ...) -> None: ...

class PromptInfo(_message.Message):
    __slots__ = ("token_count", "cached_token_count")
    TOKEN_COUNT_FIELD_NUMBER: _ClassVar[int]
    CACHED_TOKEN_COUNT_FIELD_NUMBER: _ClassVar[int]
    token_count: int
    cached_token_count: int
    def __init__(self, token_count: _Optional[int] = ..., cached_token_count: _Optional[int] = ...) -> None: ...

class CandidateDelta(_message.Message):
    __slots__ = ("candidate_index", "text", "token_ids", "finish", "logprobs", "tool_calls", "reasoning_text")
    CANDIDATE_INDEX_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    FINISH_FIELD_NUMBER: _ClassVar[int]
    LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    TOOL_CALLS_FIELD_NUMBER: _ClassVar[int]
    REASONING_TEXT_FIELD_NUMBER: _ClassVar[int]
    candidate_index: int
    text: str
    token_ids: _containers.RepeatedScalarFieldContainer[int]
    finish: _stopping_pb2.Finish
    logprobs: _containers.RepeatedCompositeFieldContainer[_logprobs_pb2.TokenLogprobs]
    tool_calls: _containers.RepeatedCompositeFieldContainer[_tool_pb2.ToolCallDelta]
    reasoning_text: str
    def __init__(self, candidate_index: _Optional[int] = ..., text: _Optional[str] = ..., token_ids: _Optional[_Iterable[int]] = ..., finish: _Optional[_Union[_stopping_pb2.Finish, _Mapping]] = ..., logprobs: _Optional[_Iterable[_Union[_logprobs_pb2.TokenLogprobs, _Mapping]]] = ..., tool_calls: _Optional[_Iterable[_Union[_tool_pb2.ToolCallDelta, _Mapping]]] = ..., reasoning_text: _Optional[str] = ...) -> None: ...

class Usage(_message.Message):
    __slots__ = ("prompt_token_count", "output_token_count", "reasoning_token_count")
    PROMPT_TOKEN_COUNT_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_TOKEN_COUNT_FIELD_NUMBER: _ClassVar[int]
    REASONING_TOKEN_COUNT_FIELD_NUMBER: _ClassVar[int]
    prompt_token_count: int
    output_token_count: int
    reasoning_token_count: int
    def __init__(self, prompt_token_count: _Optional[int] = ..., output_token_count: _Optional[int] = ..., reasoning_token_count: _Optional[int] = ...) -> None: ...

class Timing(_message.Message):
    __slots__ = ("queue", "first_token", "total")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    FIRST_TOKEN_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    queue: _duration_pb2.Duration
    first_token: _duration_pb2.Duration
    total: _duration_pb2.Duration
    def __init__(self, queue: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., first_token: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., total: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class TokenizeRequest(_message.Message):
    __slots__ = ("model", "text", "token_ids", "chat", "add_special_tokens", "suffix")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    CHAT_FIELD_NUMBER: _ClassVar[int]
    ADD_SPECIAL_TOKENS_FIELD_NUMBER: _ClassVar[int]
    SUFFIX_FIELD_NUMBER: _ClassVar[int]
    model: str
    text: str
    token_ids: _prompt_pb2.TokenIds
    chat: _prompt_pb2.Chat
    add_special_tokens: bool
    suffix: str
    def __init__(self, model: _Optional[str] = ..., text: _Optional[str] = ..., token_ids: _Optional[_Union[_prompt_pb2.TokenIds, _Mapping]] = ..., chat: _Optional[_Union[_prompt_pb2.Chat, _Mapping]] = ..., add_special_tokens: _Optional[bool] = ..., suffix: _Optional[str] = ...) -> None: ...

class TokenizeResponse(_message.Message):
    __slots__ = ("token_ids", "token_count", "text")
    TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    TOKEN_COUNT_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    token_ids: _containers.RepeatedScalarFieldContainer[int]
    token_count: int
    text: str
    def __init__(self, token_ids: _Optional[_Iterable[int]] = ..., token_count: _Optional[int] = ..., text: _Optional[str] = ...) -> None: ...

class DetokenizeRequest(_message.Message):
    __slots__ = ("model", "token_ids", "include_special_tokens")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_SPECIAL_TOKENS_FIELD_NUMBER: _ClassVar[int]
    model: str
    token_ids: _containers.RepeatedScalarFieldContainer[int]
    include_special_tokens: bool
    def __init__(self, model: _Optional[str] = ..., token_ids: _Optional[_Iterable[int]] = ..., include_special_tokens: _Optional[bool] = ...) -> None: ...

class DetokenizeResponse(_message.Message):
    __slots__ = ("text",)
    TEXT_FIELD_NUMBER: _ClassVar[int]
    text: str
    def __init__(self, text: _Optional[str] = ...) -> None: ...
