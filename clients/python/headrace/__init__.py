"""Headrace: the client of the streaming inference service.

The names below are imported when they are first used, so that the generated code in
`headrace.v1` and the command line do not pay for a client that they do not use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.async_client import AsyncClient
    from headrace.client import Client
    from headrace.errors import (
        AuthenticationError,
        CallCancelledError,
        ClientStalledError,
        ContextLengthExceededError,
        DeadlineExceededError,
        DuplicateRequestIdError,
        HeadraceError,
        InternalError,
        InvalidRequestError,
        ModelNotFoundError,
        OverloadedError,
        QueueTimeoutError,
        UnavailableError,
    )
    from headrace.logprobs import TokenLogprobs, TopLogprob
    from headrace.options import ChatMessage, GenerateOptions, PromptOptions, StreamOptions, Tool
    from headrace.results import (
        Candidate,
        Capability,
        Delta,
        Finish,
        FinishReason,
        Generation,
        Model,
        Sampling,
        Timing,
        Tokenization,
        Usage,
    )
    from headrace.streams import AsyncGenerationStream, GenerationStream
    from headrace.tls import Tls
    from headrace.tools import ToolCall, ToolCallDelta

    __version__: str

__all__ = [
    "AsyncClient",
    "AsyncGenerationStream",
    "AuthenticationError",
    "CallCancelledError",
    "Candidate",
    "Capability",
    "ChatMessage",
    "Client",
    "ClientStalledError",
    "ContextLengthExceededError",
    "DeadlineExceededError",
    "Delta",
    "DuplicateRequestIdError",
    "Finish",
    "FinishReason",
    "GenerateOptions",
    "Generation",
    "GenerationStream",
    "HeadraceError",
    "InternalError",
    "InvalidRequestError",
    "Model",
    "ModelNotFoundError",
    "OverloadedError",
    "PromptOptions",
    "QueueTimeoutError",
    "Sampling",
    "StreamOptions",
    "Timing",
    "Tls",
    "TokenLogprobs",
    "Tokenization",
    "Tool",
    "ToolCall",
    "ToolCallDelta",
    "TopLogprob",
    "UnavailableError",
    "Usage",
    "__version__",
]

_MODULES = (
    "client",
    "async_client",
    "errors",
    "logprobs",
    "options",
    "results",
    "streams",
    "tls",
    "tools",
)


def _load(name: str) -> object:
    if name == "__version__":
        globals()[name] = import_module("importlib.metadata").version("headrace")
    elif name in __all__:
        modules = [import_module(f"headrace.{module}") for module in _MODULES]
        globals()[name] = next(vars(module)[name] for module in modules if name in vars(module))
    else:
        raise AttributeError(f"module 'headrace' has no attribute {name!r}")
    return globals()[name]


if not TYPE_CHECKING:  # else every misspelt name would have a type
    __getattr__ = _load


def __dir__() -> list[str]:
    return [*globals(), *__all__]
