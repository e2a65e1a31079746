"""Where `make clients` puts the clients that the environment of development has not."""

from pathlib import Path

HERE = Path(__file__).parent
NODE = HERE / "node"
PYTHON = HERE / "python"
BIN = PYTHON / ".venv" / "bin"
HOW_TO_MAKE = "the clients are not installed; run 'make clients'"
