"""ModelService: what this server serves, and the check of the names that requests use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.v1 import model_pb2
from headrace.v1 import model_service_pb2 as pb
from headrace_server.errors import ModelNotFoundError
from headrace_server.rpc.convert.checks import check_model_name
from headrace_server.rpc.convert.model_page import check_list_models
from headrace_server.rpc.convert.sampling import to_sampling_message

if TYPE_CHECKING:
    from headrace_server.rpc.availability import Availability
    from headrace_server.rpc.calls import Call


@dataclass(frozen=True, slots=True)
class ServedNames:
    """The names under which the one model is served.

    Args:
        name: the first one.
        aliases: the others.
    """

    name: str
    aliases: tuple[str, ...]

    def require(self, name: str) -> None:
        """Require that `name` is one of them or empty.

        Raises:
            ModelNotFoundError: it is another.
        """
        if name and name != self.name and name not in self.aliases:
            raise ModelNotFoundError(
                f'The model "{name}" is not served here; use "{self.name}" or leave the name empty.'
            )


class ModelService:
    """The handlers of ModelService.

    Args:
        names: of the served model.
        availability: has the model once it is loaded.
        takes_constraints: whether the form of answers can be constrained.
    """

    def __init__(
        self, names: ServedNames, availability: Availability, *, takes_constraints: bool
    ) -> None:
        self._names = names
        self._availability = availability
        self._takes_constraints = takes_constraints

    async def get_model(self, call: Call, request: pb.GetModelRequest) -> pb.GetModelResponse:
        """Describe a model by one of its names."""
        check_model_name(request.name, "name")
        self._names.require(request.name)
        return pb.GetModelResponse(model=self.describe())

    async def list_models(self, call: Call, request: pb.ListModelsRequest) -> pb.ListModelsResponse:
        """Describe the models of a page; the one model is the whole first page."""
        check_list_models(request)
        return pb.ListModelsResponse(models=[self.describe()])

    def describe(self) -> model_pb2.Model:
        """Describe the one model.

        Raises:
            EngineUnavailableError: it is still loading.
        """
        model = self._availability.require_model()
        capabilities = [model_pb2.CAPABILITY_COMPLETION]
        if model.has_chat_template:
            capabilities.append(model_pb2.CAPABILITY_CHAT)
        if self._takes_constraints:
            capabilities.append(model_pb2.CAPABILITY_CONSTRAINT)
        if model.has_chat_template:
            capabilities.append(model_pb2.CAPABILITY_TOOLS)
        if model.has_reasoning:
            capabilities.append(model_pb2.CAPABILITY_REASONING)
        if model.fills_in:
            capabilities.append(model_pb2.CAPABILITY_INFILL)
        message = model_pb2.Model(
            name=self._names.name,
            aliases=self._names.aliases,
            context_length=model.context_length,
            vocabulary_size=model.vocabulary_size,
            default_sampling=to_sampling_message(model.default_sampling),
            end_of_text_token_ids=model.end_of_text_token_ids,
            capabilities=capabilities,
            tokenizer_fingerprint=model.tokenizer_fingerprint,
        )
        message.ready_time.FromDatetime(self._availability.ready_time)
        return message
