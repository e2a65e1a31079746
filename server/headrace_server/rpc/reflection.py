"""Server reflection, v1 and v1alpha: grpcio-reflection has the latter, the former is its twin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from google.protobuf import text_format
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.rpc import error_details_pb2
from grpc_reflection.v1alpha import reflection, reflection_pb2

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from google.protobuf.descriptor import FileDescriptor, ServiceDescriptor

    from headrace_server.rpc.calls import Call

SERVICE: Final[ServiceDescriptor] = reflection_pb2.DESCRIPTOR.services_by_name["ServerReflection"]
# The messages of both versions are the same on the wire; only the name of the package differs.
SERVICE_NAMES: Final = (
    "grpc.reflection.v1alpha.ServerReflection",
    "grpc.reflection.v1.ServerReflection",
)


class Reflection:
    """Tells clients such as grpcurl of the services and messages, and of nothing else.

    Args:
        services: what is served beside reflection.
    """

    def __init__(self, services: Sequence[ServiceDescriptor]) -> None:
        self._pool = DescriptorPool()
        for service in (*services, SERVICE):
            _add(self._pool, service.file)
        # With it clients can show the details of an error.
        _add(self._pool, error_details_pb2.DESCRIPTOR)
        self._pool.Add(_v1_file())
        names = [*(service.full_name for service in services), *SERVICE_NAMES]
        self._servicer = reflection.aio.ReflectionServicer(names, pool=self._pool)

    async def answer(self, call: Call, requests: AsyncIterator[Any]) -> None:
        """Answer each request of a stream."""
        found = (self._ask_for_service(request) async for request in requests)
        async for response in self._servicer.ServerReflectionInfo(found, None):
            await call.write(response)

    def _ask_for_service(self, request: Any) -> Any:
        """Ask for the service instead of its method, which the pool does not find by name."""
        symbol = request.file_containing_symbol
        if symbol:
            try:
                self._pool.FindFileContainingSymbol(symbol)
            except KeyError:
                request.file_containing_symbol = symbol.rpartition(".")[0] or symbol
        return request


def _add(pool: DescriptorPool, file: FileDescriptor) -> None:
    for dependency in file.dependencies:
        _add(pool, dependency)
    proto = FileDescriptorProto()
    file.CopyToProto(proto)
    pool.Add(proto)


def _v1_file() -> FileDescriptorProto:
    proto = FileDescriptorProto()
    SERVICE.file.CopyToProto(proto)
    text = text_format.MessageToString(proto).replace("v1alpha", "v1")
    return text_format.Parse(text, FileDescriptorProto())
