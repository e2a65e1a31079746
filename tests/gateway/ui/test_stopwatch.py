"""How the page tells the pace of an answer."""

import pytest

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]

READ = """async ([times, tokens]) => {
  const { Stopwatch, paceInWords } = await import("/ui/scripts/stopwatch.js");
  const clock = times.values();
  const watch = new Stopwatch(() => clock.next().value);
  for (let i = 1; i < times.length; i += 1) watch.tick();
  return paceInWords(watch.read(tokens)).join(", ");
}"""


@pytest.mark.parametrize(
    ("milliseconds", "tokens", "words"),
    [
        ([0, 250, 500, 1250], 41, "41 tokens, 40.0 tokens/s, first token after 250 ms"),
        ([0, 1500, 1600], 101, "101 tokens, 1000 tokens/s, first token after 1.5 s"),
        ([7, 8, 9], 500, "500 tokens, first token after 1 ms"),
        ([0, 100], 1, "1 token, first token after 100 ms"),
        ([0, 100, 900], None, "first token after 100 ms"),
        ([0], 0, "0 tokens"),
        ([0], None, ""),
    ],
)
async def test_the_pace_is_that_after_the_first_token(chat, milliseconds, tokens, words):
    """What is not known is left out: a count that never came, a rate of what came at once."""
    assert await chat.run(READ, [milliseconds, tokens]) == words
