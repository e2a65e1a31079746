import datetime

from google.protobuf import timestamp_pb2 as _timestamp_pb2
from headrace.v1 import sampling_pb2 as _sampling_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Capability(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CAPABILITY_UNSPECIFIED: _ClassVar[Capability]
    CAPABILITY_COMPLETION: _ClassVar[Capability]
    CAPABILITY_CHAT: _ClassVar[Capability]
    CAPABILITY_CONSTRAINT: _ClassVar[Capability]
    CAPABILITY_TOOLS: _ClassVar[Capability]
    CAPABILITY_REASONING: _ClassVar[Capability]
    CAPABILITY_INFILL: _ClassVar[Capability]
CAPABILITY_UNSPECIFIED: Capability
CAPABILITY_COMPLETION: Capability
CAPABILITY_CHAT: Capability
CAPABILITY_CONSTRAINT: Capability
CAPABILITY_TOOLS: Capability
CAPABILITY_REASONING: Capability
CAPABILITY_INFILL: Capability

class Model(_message.Message):
    __slots__ = ("name", "aliases", "context_length", "vocabulary_size", "default_sampling", "end_of_text_token_ids", "capabilities", "tokenizer_fingerprint", "ready_time")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ALIASES_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_LENGTH_FIELD_NUMBER: _ClassVar[int]
    VOCABULARY_SIZE_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_SAMPLING_FIELD_NUMBER: _ClassVar[int]
    END_OF_TEXT_TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    CAPABILITIES_FIELD_NUMBER: _ClassVar[int]
    TOKENIZER_FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    READY_TIME_FIELD_NUMBER: _ClassVar[int]
    name: str
    aliases: _containers.RepeatedScalarFieldContainer[str]
    context_length: int
    vocabulary_size: int
    default_sampling: _sampling_pb2.Sampling
    end_of_text_token_ids: _containers.RepeatedScalarFieldContainer[int]
    capabilities: _containers.RepeatedScalarFieldContainer[Capability]
    tokenizer_fingerprint: str
    ready_time: _timestamp_pb2.Timestamp
    def __init__(self, name: _Optional[str] = ..., aliases: _Optional[_Iterable[str]] = ..., context_length: _Optional[int] = ..., vocabulary_size: _Optional[int] = ..., default_sampling: _Optional[_Union[_sampling_pb2.Sampling, _Mapping]] = ..., end_of_text_token_ids: _Optional[_Iterable[int]] = ..., capabilities: _Optional[_Iterable[_Union[Capability, str]]] = ..., tokenizer_fingerprint: _Optional[str] = ..., ready_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...
