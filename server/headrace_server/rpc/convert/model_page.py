"""The request of ListModels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace_server.rpc.convert.checks import require

if TYPE_CHECKING:
    from headrace.v1 import model_service_pb2

MAX_PAGE_SIZE: Final = 1000


def check_list_models(message: model_service_pb2.ListModelsRequest) -> None:
    """Check a request of ListModels: the one model is the whole first page.

    Raises:
        InvalidFieldError: a field is out of its range.
    """
    require(
        0 <= message.page_size <= MAX_PAGE_SIZE, "page_size", f"must be from 0 to {MAX_PAGE_SIZE}"
    )
    require(not message.page_token, "page_token", "must be empty, or a token that this server gave")
