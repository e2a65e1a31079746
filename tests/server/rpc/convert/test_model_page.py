"""The request of ListModels."""

import pytest

from headrace.v1 import model_service_pb2
from headrace_server.errors import InvalidFieldError
from headrace_server.rpc.convert.model_page import check_list_models


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"page_size": -1}, "page_size"),
        ({"page_size": 1001}, "page_size"),
        ({"page_token": "x"}, "page_token"),
    ],
)
def test_a_page_that_cannot_be_is_refused(fields, path):
    """Sizes out of range and tokens of other servers name their field."""
    with pytest.raises(InvalidFieldError) as caught:
        check_list_models(model_service_pb2.ListModelsRequest(**fields))
    assert caught.value.field == path
