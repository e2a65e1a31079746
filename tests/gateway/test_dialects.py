"""Which paths speak which dialect."""

import pytest

from headrace_gateway.dialects import dialect_of


@pytest.mark.parametrize(
    ("path", "is_anthropic"),
    [
        ("/v1/messages", True),
        ("/messages", True),
        ("/v1/messages/count_tokens", True),
        ("/v1/messages/batches/a", True),
        ("/v1/messagesque", False),
        ("/v1/chat/completions", False),
        ("/v1/models/messages", False),
        ("/", False),
    ],
)
def test_the_paths_of_messages_speak_anthropics(path, is_anthropic):
    """Also where there is nothing, so that its clients understand that."""
    assert ("request-id" in dialect_of(path).id_headers) == is_anthropic
