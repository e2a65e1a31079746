"""However a request is sent, it has one answer: whole, in a stream and over gRPC."""

from pathlib import Path

import aiohttp
import pytest
import pytest_asyncio
from grpc import aio
from hypothesis import example, given, settings

from headrace.v1.inference_service_pb2_grpc import InferenceServiceStub
from tests.gateway.properties.told import check_one_answer
from tests.gateway.properties.wishes import FORCED_CALLS, REASONING, wishes
from tests.gateway.service import serving

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]

NUM_EXAMPLES = 150
MOST_TOKENS = 48
TEMPLATE = Path(__file__).parent / "thinking_template.jinja"


@pytest.fixture(scope="module")
def thinker(tmp_path_factory):
    """A service whose template opens the reasoning where it is told to."""
    directory = tmp_path_factory.mktemp("thinker")
    with serving(directory, ("--chat-template", str(TEMPLATE))) as service:
        yield service


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def http(thinker):
    async with aiohttp.ClientSession(thinker.url) as session:
        yield session


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stub(thinker):
    async with aio.insecure_channel(thinker.grpc_address) as channel:
        yield InferenceServiceStub(channel)


@settings(max_examples=NUM_EXAMPLES)
@given(wish=wishes(MOST_TOKENS))
@example(wish=FORCED_CALLS)
@example(wish=REASONING)
async def test_a_request_has_one_answer(http, stub, wish):
    """Text, reasoning, calls, log probabilities, ids, reasons and counts are the same."""
    await check_one_answer(http, stub, wish)
