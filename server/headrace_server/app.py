"""The composition root: opens the parts in order and closes them in the other."""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from grpc_health.v1 import health_pb2

from headrace.v1 import inference_service_pb2, model_service_pb2
from headrace_server.api_keys import ApiKeyError, ApiKeys
from headrace_server.backends.native import EngineLoadError, NativeBackend
from headrace_server.errors import DrainingError
from headrace_server.grammar.checker import GrammarChecker
from headrace_server.metrics import serve_metrics
from headrace_server.rpc import reflection
from headrace_server.rpc.availability import Availability
from headrace_server.rpc.boundary import Boundary
from headrace_server.rpc.callers import Callers
from headrace_server.rpc.calls import DRAINING_RETRY_SECONDS, Calls
from headrace_server.rpc.health import Health
from headrace_server.rpc.inference_service import InferenceService
from headrace_server.rpc.listening import ListenError, listen, not_bound
from headrace_server.rpc.model_service import ModelService, ServedNames
from headrace_server.telemetry import log_event
from headrace_server.text.model_files import ModelFileError
from headrace_server.text.pipeline import TextPipeline

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable

    from headrace_server.backends.interface import Backend
    from headrace_server.config import AccessConfig, Config, ShutdownConfig
    from headrace_server.metrics import MetricsConfig

# What is left of a call when its handler is done is to send its status: milliseconds.
STOP_GRACE_SECONDS: Final = 0.25
# A call that is told to end only has to leave the engine's stream, which never waits.
END_SECONDS: Final = 1.0
# A Watch of health ends by itself as soon as it has told the news.
PROBE_SECONDS: Final = 0.1

# The level of calls that programs repeat to see how the server is; a gateway that waits for
# the model asks ModelService for the reason each time.
_QUIET: Final = logging.DEBUG

_METRICS_PORT_FLAG: Final = "--metrics-port"

_INFERENCE: Final = inference_service_pb2.DESCRIPTOR.services_by_name["InferenceService"]
_MODEL: Final = model_service_pb2.DESCRIPTOR.services_by_name["ModelService"]
_HEALTH: Final = health_pb2.DESCRIPTOR.services_by_name["Health"]

_log = logging.getLogger(__name__)


class StartError(Exception):
    """The server cannot serve; the message is one sentence that says what to do."""


@dataclass(frozen=True, slots=True)
class Server:
    """A server that takes calls.

    Args:
        address: where, as host:port.
        metrics_address: where the metrics are, as host:port; None where they are not served.
        backend: has the load and the state of the engine.
        availability: whether requests are served now.
        model_service: describes the model.
        calls: those in progress.
    """

    address: str
    metrics_address: str | None
    backend: NativeBackend
    availability: Availability
    model_service: ModelService
    calls: Calls

    async def drain(self, config: ShutdownConfig) -> None:
        """Refuse new calls, wait for those in progress, and interrupt the last at the timeout."""
        self.availability.drain()
        self.calls.close_gate()
        log_event(_log, logging.INFO, "draining", calls=self.calls.num_live)
        loop = asyncio.get_running_loop()
        lame_duck_end = loop.time() + config.lame_duck_seconds
        if not await _in_time(self.calls.wait_until_idle(), config.timeout_seconds):
            log_event(_log, logging.WARNING, "drain timed out", calls=self.calls.num_live)
            self.calls.end_all(_stopped())
            await _in_time(self.calls.wait_until_idle(), END_SECONDS)
        await asyncio.sleep(lame_duck_end - loop.time())
        # Probes that are still open would hold up the stop for all of its grace.
        if not await _in_time(self.calls.wait_until_empty(), PROBE_SECONDS):
            self.calls.end_all(_stopped())
            await _in_time(self.calls.wait_until_empty(), END_SECONDS)


@asynccontextmanager
async def open_server(config: Config) -> AsyncIterator[Server]:
    """Open a server. Its port is open at once; the model is loaded in the meantime.

    Raises:
        StartError: a port is taken, keys or certificates cannot be used, or, also later in the
            body, the model cannot be loaded.
    """
    try:
        async with AsyncExitStack() as stack:
            yield await _open(config, stack)
    except BaseExceptionGroup as group:
        raise _to_start_error(_unwrap(group)) from None
    except (EngineLoadError, ListenError) as error:
        raise _to_start_error(error) from None


async def _open(config: Config, stack: AsyncExitStack) -> Server:
    calls = Calls()
    callers = _to_callers(config.access, have_certificates=config.rpc.asks_for_certificates)
    grpc_server, address = listen(config.rpc)
    backend = await stack.enter_async_context(
        NativeBackend(config.engine, config.admission, config.supervision)
    )
    checker = await stack.enter_async_context(GrammarChecker())
    pipeline = await stack.enter_async_context(
        TextPipeline(
            backend,
            constraints=checker,
            chat_template_file=config.chat_template_file,
            call_format=config.tool_call_format,
            seed=config.seed,
        )
    )
    metrics_address = None
    if config.metrics is not None:
        metrics_address = await _open_metrics(config, config.metrics, backend, stack)
    availability = Availability(backend, pipeline)
    names = ServedNames(config.served_names[0], config.served_names[1:])
    boundary = Boundary(calls, config.rpc.stall_seconds, callers)
    model_service = ModelService(names, availability, takes_constraints=pipeline.takes_constraints)
    _register(
        boundary, InferenceService(names, availability, pipeline), model_service, availability
    )
    grpc_server.add_generic_rpc_handlers([boundary])
    await grpc_server.start()
    stack.push_async_callback(grpc_server.stop, STOP_GRACE_SECONDS)
    tasks = await stack.enter_async_context(asyncio.TaskGroup())
    stack.callback(tasks.create_task(availability.follow()).cancel)
    return Server(address, metrics_address, backend, availability, model_service, calls)


def _to_callers(config: AccessConfig, *, have_certificates: bool) -> Callers:
    try:
        keys = ApiKeys(config.api_keys, config.api_key_file) if config.has_keys else None
    except ApiKeyError as error:
        raise StartError(f"{error}.") from None
    return Callers(keys, have_certificates=have_certificates)


async def _open_metrics(
    config: Config, metrics: MetricsConfig, backend: Backend, stack: AsyncExitStack
) -> str:
    serving = serve_metrics(metrics, backend, config.served_names[0])
    try:
        return await stack.enter_async_context(serving)
    except OSError as error:
        raise not_bound(
            metrics.host, metrics.port, "--metrics-host", _METRICS_PORT_FLAG, error
        ) from error


def _register(
    boundary: Boundary,
    inference: InferenceService,
    model: ModelService,
    availability: Availability,
) -> None:
    boundary.register(
        _INFERENCE,
        {
            "Generate": inference.generate,
            "Tokenize": inference.tokenize,
            "Detokenize": inference.detokenize,
        },
    )
    boundary.register(
        _MODEL,
        {"ListModels": model.list_models, "GetModel": model.get_model},
        log_level=_QUIET,
    )
    health = Health(availability, [_INFERENCE.full_name, _MODEL.full_name])
    boundary.register(
        _HEALTH,
        {"Check": health.check, "List": health.list_all, "Watch": health.watch},
        needs_key=False,
        is_probe=True,
        log_level=_QUIET,
    )
    mirror = reflection.Reflection([_INFERENCE, _MODEL, _HEALTH])
    for name in reflection.SERVICE_NAMES:
        boundary.register(
            reflection.SERVICE,
            {"ServerReflectionInfo": mirror.answer},
            name=name,
            is_probe=True,
            log_level=_QUIET,
        )


async def _in_time(waiting: Awaitable[None], timeout_seconds: float) -> bool:
    try:
        async with asyncio.timeout(timeout_seconds):
            await waiting
    except TimeoutError:
        return False
    return True


def _stopped() -> DrainingError:
    return DrainingError(
        "The server stopped before the answer was complete; send the request again.",
        DRAINING_RETRY_SECONDS,
    )


def _to_start_error(error: BaseException) -> BaseException:
    is_known = isinstance(error, EngineLoadError | ListenError | ModelFileError)
    return StartError(str(error)) if is_known else error


def _unwrap(group: BaseException) -> BaseException:
    """Take what is alone in its groups out of them."""
    while isinstance(group, BaseExceptionGroup) and len(group.exceptions) == 1:
        group = group.exceptions[0]
    return group
