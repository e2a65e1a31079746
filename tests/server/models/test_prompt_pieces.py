"""How rows with log probabilities of the prompt are cut, and put together again."""

import pytest

from headrace_server.engine.logprobs import TokenLogprobs
from headrace_server.engine.model_runner import BatchRow, PromptLogprobs, RowFault, RowOutput
from headrace_server.models import prompt_pieces
from headrace_server.models.prompt_pieces import cut_batch, join_outputs
from tests.server.models.sampling.reference import make_row


def make_batch_row(num_tokens: int, num_targets: int | None, start: int = 0) -> BatchRow:
    prompt = None
    if num_targets is not None:
        prompt = PromptLogprobs(list(range(101, 101 + num_targets)), 5)
    return BatchRow(0, list(range(num_tokens)), start, (0,), make_row(), prompt)


def summary(batch, max_num_logits: int, monkeypatch):
    """By step: index, tokens, start, targets and whether it is sampled, of each piece."""
    monkeypatch.setattr(prompt_pieces, "_MAX_LOGITS_BYTES", max_num_logits * 4 * 10)
    return [
        [
            (
                piece.index,
                list(piece.row.token_ids),
                piece.row.start,
                None
                if piece.row.prompt_logprobs is None
                else list(piece.row.prompt_logprobs.target_token_ids),
                piece.row.sampling is not None,
            )
            for piece in pieces
        ]
        for pieces in cut_batch(batch, 10)
    ]


def test_a_batch_without_prompts_is_one_step(monkeypatch):
    """It goes to the model as it is."""
    batch = [make_batch_row(1, None), make_batch_row(9, None)]
    (pieces,) = cut_batch(batch, 10)
    assert [piece.row for piece in pieces] == batch


def test_prompts_that_fit_are_not_cut(monkeypatch):
    """The others come first; the order within a step is of no interest to the model."""
    batch = [make_batch_row(3, 3), make_batch_row(9, None), make_batch_row(3, 2)]
    steps = summary(batch, 5, monkeypatch)
    assert [[piece[0] for piece in step] for step in steps] == [[1, 0, 2]]


def test_a_long_prompt_is_cut_and_sampled_at_its_end(monkeypatch):
    """Each piece has its own targets, and the last one the tokens that have none."""
    assert summary([make_batch_row(8, 7, start=100)], 3, monkeypatch) == [
        [(0, [0, 1, 2], 100, [101, 102, 103], False)],
        [(0, [3, 4, 5], 103, [104, 105, 106], False)],
        [(0, [6, 7], 106, [107], True)],
    ]


def test_prompts_share_the_steps(monkeypatch):
    """What is left of a step takes the beginning of the next prompt."""
    batch = [make_batch_row(2, 2), make_batch_row(5, 4), make_batch_row(1, 0), make_batch_row(1, 1)]
    assert summary(batch, 3, monkeypatch) == [
        [(0, [0, 1], 0, [101, 102], True), (1, [0], 0, [101], False)],
        [(1, [1, 2, 3, 4], 1, [102, 103, 104], True)],
        [(2, [0], 0, [], True), (3, [0], 0, [101], True)],
    ]


def test_a_vocabulary_larger_than_the_limit_goes_token_by_token(monkeypatch):
    """There is no piece without a token."""
    steps = summary([make_batch_row(2, 2)], 0, monkeypatch)
    assert [piece[1] for step in steps for piece in step] == [[0], [1]]


@pytest.mark.parametrize("fault", [RowFault.NOT_A_NUMBER, RowFault.NOTHING_ALLOWED])
def test_outputs_are_joined_in_order(fault):
    """Log probabilities add up, the token is that of the end, and the first fault stays."""
    first, second = TokenLogprobs(-1.0, [], []), TokenLogprobs(-2.0, [], [])
    before = RowOutput(None, prompt_logprobs=[first])
    end = RowOutput(7, second, [second])
    assert join_outputs(RowOutput(None), end) == end
    assert join_outputs(before, end) == RowOutput(7, second, [first, second])
    assert join_outputs(before, fault) == fault
    assert join_outputs(fault, end) == fault
