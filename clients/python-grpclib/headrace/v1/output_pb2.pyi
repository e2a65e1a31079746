import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Output(_message.Message):
    __slots__ = ("text", "token_ids", "chunking", "top_logprobs", "prompt_logprobs", "special_tokens")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    CHUNKING_FIELD_NUMBER: _ClassVar[int]
    TOP_LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    PROMPT_LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    SPECIAL_TOKENS_FIELD_NUMBER: _ClassVar[int]
    text: bool
    token_ids: bool
    chunking: Chunking
    top_logprobs: int
    prompt_logprobs: int
    special_tokens: bool
    def __init__(self, text: _Optional[bool] = ..., token_ids: _Optional[bool] = ..., chunking: _Optional[_Union[Chunking, _Mapping]] = ..., top_logprobs: _Optional[int] = ..., prompt_logprobs: _Optional[int] = ..., special_tokens: _Optional[bool] = ...) -> None: ...

class Chunking(_message.Message):
    __slots__ = ("min_tokens", "max_delay", "whole")
    MIN_TOKENS_FIELD_NUMBER: _ClassVar[int]
    MAX_DELAY_FIELD_NUMBER: _ClassVar[int]
    WHOLE_FIELD_NUMBER: _ClassVar[int]
    min_tokens: int
    max_delay: _duration_pb2.Duration
    whole: bool
    def __init__(self, min_tokens: _Optional[int] = ..., max_delay: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., whole: _Optional[bool] = ...) -> None: ...
