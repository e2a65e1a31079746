"""grpc.health.v1: Check, List, and a Watch that follows the truth and ends with a drain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from grpc_health.v1 import health_pb2

from headrace_server.rpc.errors import UnknownServiceError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace_server.rpc.availability import Availability
    from headrace_server.rpc.calls import Call

_SERVING = health_pb2.HealthCheckResponse.SERVING
_NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
_UNKNOWN = health_pb2.HealthCheckResponse(status=health_pb2.HealthCheckResponse.SERVICE_UNKNOWN)


class Health:
    """The health of all services is one: none can serve without the engine.

    Args:
        availability: the truth.
        service_names: full names; the empty name, the server as a whole, is added.
    """

    def __init__(self, availability: Availability, service_names: Iterable[str]) -> None:
        self._availability = availability
        self._service_names = frozenset(["", *service_names])

    async def check(self, call: Call, request: Any) -> Any:
        """Tell the state of a service now."""
        if request.service not in self._service_names:
            raise UnknownServiceError(
                f"There is no service of that name; {' and '.join(self._known())} are known."
            )
        return self._response()

    async def list_all(self, call: Call, request: Any) -> Any:
        """Tell the state of every service now."""
        return health_pb2.HealthListResponse(
            statuses={name: self._response() for name in self._service_names}
        )

    async def watch(self, call: Call, request: Any) -> None:
        """Tell the state of a service now and whenever it changes, until a drain."""
        await call.accept()
        is_known = request.service in self._service_names
        told: Any = None
        while True:
            is_serving = self._availability.is_serving
            response = self._response() if is_known else _UNKNOWN
            if response != told:
                await call.write(response)
                told = response
            elif self._availability.is_draining:
                return  # an open Watch would hold up the stop of the server for all of its grace
            else:
                await self._availability.wait_for_change(seen=is_serving)

    def _response(self) -> Any:
        return health_pb2.HealthCheckResponse(
            status=_SERVING if self._availability.is_serving else _NOT_SERVING
        )

    def _known(self) -> list[str]:
        return sorted(self._service_names - {""})
