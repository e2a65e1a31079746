"""The picture."""

import pytest

from comparison.measurement import Measurement, summarize
from comparison.metric import GRID_METRICS
from comparison.plot import PlotError, draw


def test_without_a_grid_there_is_no_picture(tmp_path):
    """A run of other parts says so."""
    rows = summarize([Measurement("start", "cached model", "one", 0, {"ready_seconds": 1.0})])
    with pytest.raises(PlotError, match="nothing of the grid"):
        draw(rows, {"one"}, tmp_path / "picture.png")


def test_the_picture_is_a_png(tmp_path):
    """With a line for each peer, also where one of them lacks a load."""
    pytest.importorskip("matplotlib", reason="it is in the dependency group bench")
    figures = {metric.key: 1.0 for metric in GRID_METRICS}
    rows = summarize(
        [
            Measurement("grid", "64 tokens, 1 stream", "one", 0, figures),
            Measurement("grid", "64 tokens, 16 streams", "one", 0, figures),
            Measurement("grid", "64 tokens, 1 stream", "two", 0, figures),
            Measurement("grid", "64 tokens, 16 streams", "two", 0, problem="not finished"),
        ]
    )
    draw(rows, {"two"}, tmp_path / "picture.png")
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")
