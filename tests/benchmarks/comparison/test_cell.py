"""The loads of the grid."""

from comparison.cell import Cell, grid


def test_the_grid_has_every_pair_and_begins_with_the_light_loads():
    """Each prompt length meets each number of streams, few streams first."""
    cells = grid((16, 1), (512, 64), 32)
    pairs = [(cell.num_prompt_tokens, cell.num_streams) for cell in cells]
    assert pairs == [(64, 1), (64, 16), (512, 1), (512, 16)]
    assert {cell.num_output_tokens for cell in cells} == {32}


def test_few_streams_send_more_than_one_request_each():
    """A single request of a single stream would be noise."""
    cells = grid((1, 4, 16), (64,), 10)
    assert [cell.num_requests for cell in cells] == [3, 8, 16]
    assert [cell.total_output_tokens for cell in cells] == [30, 80, 160]


def test_a_load_is_at_least_another_when_nothing_of_it_is_less():
    """More streams with shorter prompts are not comparable with fewer and longer."""
    light, heavy = Cell(4, 64, 64), Cell(16, 512, 64)
    assert heavy.is_at_least(light)
    assert light.is_at_least(light)
    assert not light.is_at_least(heavy)
    assert not Cell(16, 64, 64).is_at_least(Cell(4, 512, 64))


def test_the_name_says_what_the_load_is():
    """Tables and pictures show it."""
    assert Cell(1, 64, 64).name == "64 tokens, 1 stream"
    assert Cell(16, 512, 64).name == "512 tokens, 16 streams"
