from pathlib import Path

import pytest

from headrace_server.engine import simulated_model
from headrace_server.engine.grammar_vocabulary import GrammarVocabulary

SIMULATED_MODEL = Path(simulated_model.__file__).parent
SIMULATED_VOCABULARY_SIZE = 263


@pytest.fixture(scope="session")
def vocabulary():
    """The bytes and the control tokens of the simulated model."""
    return GrammarVocabulary.load(SIMULATED_MODEL, SIMULATED_VOCABULARY_SIZE)
