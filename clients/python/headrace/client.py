"""The blocking client."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self, TypeVar

from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import HealthStub

from headrace import channel, requests, responses
from headrace.connection import Connection
from headrace.interrupts import HeldInterrupt
from headrace.status import raising_own_errors
from headrace.streams import GenerationStream
from headrace.v1.inference_service_pb2_grpc import InferenceServiceStub
from headrace.v1.model_service_pb2 import GetModelRequest, ListModelsRequest
from headrace.v1.model_service_pb2_grpc import ModelServiceStub

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType
    from typing import Unpack

    import grpc

    from headrace.options import GenerateOptions, PromptOptions, StreamOptions
    from headrace.results import Generation, Model, Tokenization
    from headrace.tls import Tls
    from headrace.v1.inference_service_pb2 import GenerateRequest

_Request = TypeVar("_Request")
_Response = TypeVar("_Response")


class Client:
    """A connection to a server; threads may share it.

        with headrace.Client() as client:
            print(client.generate("Once upon a time", max_output_tokens=60).text)

    Calls that the server refused without effect are made again, after the time that
    it asks for: until an answer begins, never after.

    Args:
        target: ``host:port``, or ``host`` with port 1920, of the gRPC server.
        api_key: the key that a server with keys wants; it goes with each call, also where there
            is no encryption.
        tls: encrypts the connection: `Tls`, or True for one that trusts the authorities that
            this system trusts.
        max_attempts: the number of times that a call is made at most, 1 to 5.

    Raises:
        ValueError: `target` is not an address, `api_key` cannot be sent, a file of `tls` cannot
            be used, or `max_attempts` is out of range.
    """

    def __init__(
        self,
        target: str = channel.DEFAULT_TARGET,
        *,
        api_key: str | None = None,
        tls: Tls | bool | None = None,
        max_attempts: int = channel.DEFAULT_MAX_ATTEMPTS,
    ) -> None:
        self._connection = Connection.to(
            target, api_key=api_key, tls=tls, max_attempts=max_attempts
        )
        self._channel = self._connection.channel()
        self._inference = InferenceServiceStub(self._channel)
        self._models = ModelServiceStub(self._channel)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Cancel what is running and close the connection."""
        self._channel.close()

    def generate(self, prompt: str | None = None, **options: Unpack[GenerateOptions]) -> Generation:
        """Continue a prompt, or answer `messages`, and return the whole answer.

        Args:
            prompt: the prompt as text, given to the tokenizer as it is.
            options: see `GenerateOptions`.

        Raises:
            HeadraceError: one of its subclasses tells what to do.
            TypeError: an option is unknown or of the wrong type, or there is not
                exactly one of prompt, messages and token_ids.
        """
        request = requests.generate_request(prompt, options)
        stream = self._stream(request, options.get("timeout"))
        for _ in stream:
            pass
        return stream.generation

    def stream(
        self, prompt: str | None = None, **options: Unpack[StreamOptions]
    ) -> GenerationStream:
        """Continue a prompt, or answer `messages`, and read the answer as it is made.

        The call is made when the stream is entered or iterated.

        Args:
            prompt: the prompt as text, given to the tokenizer as it is.
            options: see `StreamOptions`.

        Raises:
            TypeError: as for `generate`; the errors of the call are raised by the
                stream.
        """
        return self._stream(requests.stream_request(prompt, options), options.get("timeout"))

    def tokenize(self, prompt: str | None = None, **options: Unpack[PromptOptions]) -> Tokenization:
        """Turn a prompt, or `messages`, into tokens.

        Raises:
            HeadraceError: one of its subclasses tells what to do.
        """
        request = requests.tokenize_request(prompt, options)
        response = self._call(self._inference.Tokenize, request, options.get("timeout"))
        return responses.tokenization(request, response)

    def detokenize(
        self,
        token_ids: Sequence[int],
        *,
        include_special_tokens: bool = False,
        model: str | None = None,
        timeout: float | None = None,
    ) -> str:
        """Turn token ids into text.

        Args:
            token_ids: the token ids in order.
            include_special_tokens: whether control tokens appear in the text.
            model: the name of the model or an alias; None for the served one.
            timeout: the longest time for the call in seconds; None has no limit.

        Raises:
            HeadraceError: one of its subclasses tells what to do.
        """
        request = requests.detokenize_request(token_ids, include_special_tokens, model)
        response = self._call(self._inference.Detokenize, request, timeout)
        return response.text

    def list_models(self, *, timeout: float | None = None) -> list[Model]:
        """List the served models. `timeout` is in seconds, for each page of 100.

        Raises:
            HeadraceError: one of its subclasses tells what to do.
        """
        request, models = ListModelsRequest(), []
        while True:
            response = self._call(self._models.ListModels, request, timeout)
            models += [responses.model(message) for message in response.models]
            if not response.next_page_token:
                return models
            request.page_token = response.next_page_token

    def get_model(self, name: str | None = None, *, timeout: float | None = None) -> Model:
        """Get a model by its name or an alias; None gets the served one.

        Raises:
            ModelNotFoundError: there is none of that name.
            UnavailableError: it is being loaded; the message tells how far.
            HeadraceError: another subclass tells what to do.
        """
        request = GetModelRequest(name=name or "")
        response = self._call(self._models.GetModel, request, timeout)
        return responses.model(response.model)

    def check_health(self, *, timeout: float | None = 5.0) -> bool:
        """Tell whether the server takes requests. `timeout` is in seconds.

        Raises:
            UnavailableError: the server cannot be reached.
            DeadlineExceededError: it did not answer within the timeout.
        """
        request = HealthCheckRequest(service=channel.HEALTH_SERVICE)
        response = self._call(HealthStub(self._channel).Check, request, timeout)
        return bool(response.status == HealthCheckResponse.SERVING)

    def _call(
        self,
        method: grpc.UnaryUnaryMultiCallable[_Request, _Response],
        request: _Request,
        timeout: float | None,
    ) -> _Response:
        with raising_own_errors(self._connection.address):
            with HeldInterrupt():
                call = method.future(request, timeout=timeout, metadata=self._connection.metadata)
            with HeldInterrupt(call.cancel):
                return call.result()

    def _stream(self, request: GenerateRequest, timeout: float | None) -> GenerationStream:
        return GenerationStream(
            lambda: self._inference.Generate(
                request, timeout=timeout, metadata=self._connection.metadata
            ),
            self._connection.address,
            num_candidates=requests.num_candidates(request),
        )
