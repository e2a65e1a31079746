"""How a step is laid out."""

import torch

from headrace_server.engine.model_runner import BatchRow, PromptLogprobs
from headrace_server.models.step_inputs import build_step_inputs
from tests.server.models.sampling.reference import make_row


def test_wanted_logits_are_in_the_order_of_tokens():
    """Answers and parts of prompts, however mixed, each find their logits."""
    last, part, told, both = make_row(seed=0), None, make_row(seed=2), make_row(seed=3)
    batch = [
        BatchRow(0, [10, 11, 12], 4, [2, 3], part, PromptLogprobs([11, 12, 13], 0)),
        BatchRow(1, [20], 5, [0, 1], last),
        BatchRow(2, [30], 2, [4], None, PromptLogprobs([31], 1)),
        BatchRow(3, [40, 41], 0, [5], told),
        BatchRow(4, [50, 51], 0, [6], both, PromptLogprobs([51], 2)),
        BatchRow(5, [60, 61], 0, [7], part),
    ]
    step = build_step_inputs(batch, 4, torch.device("cpu"))
    assert step.token_ids.tolist() == [30, 20, 10, 11, 12, 40, 41, 50, 51, 60, 61]
    assert step.positions.tolist() == [2, 5, 4, 5, 6, 0, 1, 0, 1, 0, 1]
    assert step.slots.tolist() == [18, 5, 12, 13, 14, 20, 21, 24, 25, 28, 29]
    wanted = step.token_ids[step.logit_tokens].tolist()
    assert wanted == [30, 20, 10, 11, 12, 41, 50, 51]
    assert step.sampled_rows == [1, 3, 4]
    assert step.samplings == [last, told, both]
    assert [wanted[place] for place in step.sampled_logits] == [20, 41, 51]
    assert step.prompt_rows == [2, 0, 4]
    assert step.prompts == [batch[index].prompt_logprobs for index in step.prompt_rows]
    assert [wanted[place] for place in step.prompt_logits] == [30, 10, 11, 12, 50]


def test_awaited_tokens_are_those_of_the_rows_that_choose_them():
    """Wherever a row stands in the batch, it gets the token of its row in the step before."""
    sampling = make_row()
    batch = [
        BatchRow(0, [0], 9, [0, 1, 2], sampling, awaited_row=2),
        BatchRow(1, [50, 51], 0, [5], sampling),
        BatchRow(2, [30], 2, [4], sampling),
        BatchRow(3, [0], 5, [6, 7], sampling, awaited_row=0),
    ]
    chosen = torch.tensor([70, 71, 72])
    step = build_step_inputs(batch, 4, torch.device("cpu"), chosen)
    assert [row.sequence_id for row in step.rows] == [2, 3, 0, 1]
    assert step.token_ids.tolist() == [30, 70, 72, 50, 51]
