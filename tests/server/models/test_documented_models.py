"""docs/models.md lists what is tested, and says of each architecture which decoder takes it."""

import re
from pathlib import Path

from headrace_server.models.config import SUPPORTED_ARCHITECTURES
from tests.server.models.families import (
    FALLBACK_VARIANTS,
    FALLBACK_VARIANTS_OF_OWN,
    OWN_VARIANTS,
)

DOCUMENT = Path(__file__).parents[3] / "docs" / "models.md"
ROW = re.compile(r"^\|[^|]+\| `(\w+)` \| (own|transformers) \|$", re.MULTILINE)


def test_the_list_is_what_is_tested():
    """Each architecture stands in the table once, with the decoder that its test is of."""
    rows = ROW.findall(DOCUMENT.read_text())
    tested = {(architecture, "own") for architecture, _ in OWN_VARIANTS.values()}
    tested |= {(architecture, "transformers") for architecture, _ in FALLBACK_VARIANTS.values()}
    assert sorted(rows) == sorted(tested)


def test_the_own_families_are_tested():
    """The own decoder takes no architecture that its tests leave out."""
    own = {architecture for architecture, _ in OWN_VARIANTS.values()}
    assert set(SUPPORTED_ARCHITECTURES) == own
    assert {architecture for architecture, _ in FALLBACK_VARIANTS_OF_OWN.values()} <= own
