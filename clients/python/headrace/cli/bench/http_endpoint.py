"""A server over HTTP as OpenAI's API: /completions and /tokenize."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Self

import aiohttp

from headrace.channel import key_metadata
from headrace.cli.bench.endpoint import RequestFailedError
from headrace.tls import ssl_context

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Sequence
    from types import TracebackType

    from headrace.tls import Tls

_DATA = b"data: "
_END = b"[DONE]"


class HttpEndpoint:
    """Implements `Endpoint`.

    Args:
        url: of the API, such as ``http://localhost:1919/v1``.
        model: a name or an alias; None for the served model.
        api_key: None for none.
        tls: whom to trust and what to show; None for whom the system trusts.

    Raises:
        ValueError: a file of `tls` cannot be used.
    """

    def __init__(
        self,
        url: str,
        model: str | None,
        api_key: str | None = None,
        tls: Tls | None = None,
    ) -> None:
        self._url = url.rstrip("/")
        self._headers = dict(key_metadata(api_key))
        self._tls = None if tls is None else ssl_context(tls)
        self._has_certificate = tls is not None and tls.certfile is not None
        self._model = {} if model is None else {"model": model}

    async def __aenter__(self) -> Self:
        # Neither the number of connections nor the time is limited: the caller knows both.
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ssl=self._tls or True),
            headers=self._headers,
            timeout=aiohttp.ClientTimeout(total=None),
        )
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._session.close()

    @property
    def name(self) -> str:
        """The protocol and the address."""
        return f"HTTP {self._url}"

    async def tokenize(self, text: str) -> Sequence[int]:
        """See `Endpoint`."""
        async with self._post("tokenize", prompt=text) as response:
            return _token_ids(await response.json())

    async def answer(self, token_ids: Sequence[int], num_tokens: int) -> AsyncGenerator[int, None]:
        """See `Endpoint`."""
        body = {
            "prompt": list(token_ids),
            "max_tokens": num_tokens,
            "ignore_eos": True,
            "return_token_ids": True,
            "stream": True,
        }
        async with self._post("completions", **body) as response:
            async for line in response.content:
                data = line.removeprefix(_DATA).strip()
                if data == _END:
                    return
                if line.startswith(_DATA) and (count := _num_tokens(json.loads(data))):
                    yield count
        raise RequestFailedError("The answer broke off.")

    @asynccontextmanager
    async def _post(self, path: str, **body: object) -> AsyncIterator[aiohttp.ClientResponse]:
        url = f"{self._url}/{path}"
        try:
            async with self._session.post(url, json={**self._model, **body}) as response:
                if response.status != 200:
                    raise RequestFailedError(_reason(response.status, await response.text()))
                yield response
        except aiohttp.ClientConnectorCertificateError as error:
            reason = getattr(error.certificate_error, "verify_message", error.certificate_error)
            raise RequestFailedError(
                f"The certificate of {self._url} is not trusted ({reason}). Give the certificate "
                "of its authority, or itself, with --ca-certs."
            ) from error
        except aiohttp.ClientConnectorSSLError as error:
            raise RequestFailedError(
                f"{self._url} does not speak TLS. Give a URL with http://, or the port that has it."
            ) from error
        except aiohttp.ClientConnectorError as error:
            raise RequestFailedError(
                f"There is no server at {self._url}; start one with `headrace serve`."
            ) from error
        except (aiohttp.ClientConnectionError, aiohttp.ClientPayloadError) as error:
            raise RequestFailedError(self._why_it_broke_off(error)) from error
        except (aiohttp.ClientError, ValueError) as error:  # no HTTP, or no JSON
            raise RequestFailedError(f"{url} gave no answer as OpenAI's API does.") from error

    def _why_it_broke_off(self, error: aiohttp.ClientError) -> str:
        sentence = f"The connection to {self._url} broke off."
        has_begun = isinstance(error, aiohttp.ClientPayloadError)
        if has_begun or self._has_certificate or not self._url.startswith("https:"):
            return sentence
        # A handshake of TLS 1.3 is over for the client before the server asks for more.
        return (
            f"{sentence} A server that wants a certificate of its client does so; --certfile and "
            "--keyfile show one."
        )


def _token_ids(answer: Any) -> list[int]:
    match answer:
        case {"tokens": [*token_ids]}:  # as vLLM and Headrace call them
            return token_ids
        case _:
            raise ValueError("no tokens")


def _num_tokens(event: dict[str, Any]) -> int:
    """Return the number of tokens of an event; one with text alone has at least one."""
    if "error" in event:
        raise RequestFailedError(event["error"]["message"])
    return sum(
        len(choice.get("token_ids") or ()) or bool(choice.get("text"))
        for choice in event.get("choices", ())
    )


def _reason(status: int, text: str) -> str:
    try:
        message: str = json.loads(text)["error"]["message"]
    except (ValueError, KeyError, TypeError):
        return f"HTTP status {status}."
    return message
