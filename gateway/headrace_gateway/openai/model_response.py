"""The responses of /v1/models."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.v1 import model_pb2


class Model(msgspec.Struct, frozen=True, tag_field="object", tag="model"):
    """A name that requests may use. `max_model_len` is vLLM's word for the context length."""

    id: str
    created: int
    max_model_len: int
    owned_by: str = "headrace"


class ModelList(msgspec.Struct, frozen=True, tag_field="object", tag="list"):
    """All names that requests may use."""

    data: list[Model]


def model(name: str, served: model_pb2.Model) -> Model:
    """Return the served model under one of its names."""
    return Model(name, served.ready_time.seconds, served.context_length)


def model_list(models: Iterable[model_pb2.Model]) -> ModelList:
    """Return every model under each of its names."""
    return ModelList(
        [model(name, served) for served in models for name in (served.name, *served.aliases)]
    )
