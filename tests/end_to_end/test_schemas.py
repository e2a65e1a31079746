"""The default model writes what JSON schemas of all kinds describe."""

import asyncio

import pytest

from tests.gateway.schemas.answers import check_both
from tests.gateway.schemas.tables import followed

NUM_SAMPLES = 30
MAX_TOKENS = 300
NUM_GROUPS = 3  # each is a test of its own, so that none takes long on a slow machine
GROUP_SECONDS = 600
# Small as it is, the model may write digits, items or names without an end where a schema lets it.
ENDLESS_FAMILIES = ("scalars", "numbers", "multiples", "additional", "recursive", "lengths")
ENDLESS = (
    *("formats.duration", "integers.above", "integers.below", "arrays.unbounded"),
    *("objects.open_by_default", "objects.required_without_schema"),
    *("objects.any_value", "strings.long", "strings.exactly_sixty_four"),
)
ENDING = [
    each for each in followed() if each.family not in ENDLESS_FAMILIES and each.name not in ENDLESS
]
SAMPLES = ENDING[:: len(ENDING) // NUM_SAMPLES][:NUM_SAMPLES]

pytestmark = [pytest.mark.model, pytest.mark.asyncio(loop_scope="session")]


@pytest.mark.timeout(GROUP_SECONDS)
@pytest.mark.parametrize("group", range(NUM_GROUPS))
async def test_answers_and_arguments_match_their_schemas(stack, group):
    """Of a form and of a call that is asked for, whole and in a stream, which are the same."""
    async with stack.open_http() as http, asyncio.TaskGroup() as tasks:
        for schema in SAMPLES[group::NUM_GROUPS]:
            tasks.create_task(check_both(http, schema, max_tokens=MAX_TOKENS))
    await stack.all_returned()
