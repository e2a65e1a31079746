"""gRPC-Web by hand, as a browser would send it."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from urllib.parse import unquote

from google.rpc import error_details_pb2, status_pb2

_TRAILERS = 0x80


@dataclass(frozen=True)
class WebAnswer:
    """What came back.

    Args:
        messages: serialized.
        trailers: by their names.
    """

    messages: list[bytes]
    trailers: dict[str, str]

    @property
    def code(self) -> int:
        return int(self.trailers["grpc-status"])

    @property
    def message(self) -> str:
        return unquote(self.trailers.get("grpc-message", ""))

    @property
    def reason(self) -> str | None:
        """The reason among the details of an error."""
        text = self.trailers.get("grpc-status-details-bin", "")
        packed = status_pb2.Status.FromString(base64.b64decode(text + "=" * (-len(text) % 4)))
        info = error_details_pb2.ErrorInfo()
        return info.reason if any(detail.Unpack(info) for detail in packed.details) else None


def headers(kind, **more):
    """Return the headers of a request; the kind is "grpc-web" or "grpc-web-text"."""
    content_type = f"application/{kind}+proto"
    return {"Content-Type": content_type, "Accept": content_type, "X-Grpc-Web": "1", **more}


def body(kind, message) -> bytes:
    """Frame a request."""
    payload = message.SerializeToString()
    frame = b"\0" + len(payload).to_bytes(4, "big") + payload
    return base64.b64encode(frame) if kind == "grpc-web-text" else frame


def parse(kind, received: bytes, response_headers) -> WebAnswer:
    """Take a whole response apart."""
    if kind == "grpc-web-text":
        received = _decode_pieces(received)
    # A refusal before the first message has its status in the headers.
    trailers = {k.lower(): v for k, v in response_headers.items() if k.lower().startswith("grpc-")}
    messages = []
    while received:
        flag, length = received[0], int.from_bytes(received[1:5], "big")
        payload, received = received[5 : 5 + length], received[5 + length :]
        if flag & _TRAILERS:
            lines = payload.decode().strip().split("\r\n")
            trailers |= {k: v.strip() for k, _, v in (line.partition(":") for line in lines)}
        else:
            messages.append(payload)
    return WebAnswer(messages, trailers)


def _decode_pieces(text: bytes) -> bytes:
    """Decode base64 that was padded wherever a piece of the stream had ended."""
    return b"".join(base64.b64decode(text[i : i + 4]) for i in range(0, len(text), 4))
