"""Requests without a seed of their own get one."""

from headrace_server.text.generation import GenerationRequest, Sampling, Stopping, TextPrompt
from headrace_server.text.pipeline import TextPipeline
from headrace_server.text.seeds import Seeds
from tests.server.backends.native.simulated_backend import running_backend

HOT = GenerationRequest(
    "id",
    TextPrompt("Once"),
    sampling=Sampling(temperature=1.5),
    stopping=Stopping(max_output_tokens=16, ignore_end_of_text=True),
)


def test_a_seed_fixes_all_that_follow():
    """Two servers with one seed draw the same, in order; the draws differ and fit 64 bits."""
    drawn = [[seeds.draw() for _ in range(50)] for seeds in (Seeds(7), Seeds(7), Seeds(8))]
    assert drawn[0] == drawn[1]
    assert drawn[0] != drawn[2]
    assert len(set(drawn[0])) == 50
    assert all(-(2**63) <= seed < 2**63 for seed in drawn[0])
    assert any(seed < 0 for seed in drawn[0])


def test_without_a_seed_nothing_repeats():
    """By default two servers draw different seeds."""
    assert Seeds().draw() != Seeds().draw()


async def test_a_pipeline_with_a_seed_repeats_its_answers():
    """The same requests in the same order are answered alike, and one after the other not."""
    answers = []
    async with running_backend() as backend:
        for seed in (7, 7, 8):
            async with TextPipeline(backend, seed=seed) as pipeline:
                await pipeline.load_model(backend.model)
                answers.append([await token_ids(pipeline) for _ in range(2)])
    assert answers[0] == answers[1]
    assert answers[0] != answers[2]
    assert answers[0][0] != answers[0][1]


async def token_ids(pipeline):
    async with pipeline.generate(HOT) as answer:
        return [i async for delta in answer for part in delta.candidates for i in part.token_ids]
