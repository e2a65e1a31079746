"""`transformers` generate in a process of its own, asked like a server."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from comparison.answer import Answer
from comparison.load import RequestFailedError
from comparison.server import ServerFailedError

if TYPE_CHECKING:
    from asyncio import StreamReader, StreamWriter
    from collections.abc import AsyncIterator

NAME: Final = "generate"
_WORKER = Path(__file__).with_name("generate_worker.py")
_MAX_LINE_BYTES = 1 << 20


class Generate:
    """An `Asker` that answers one request after the other.

    Args:
        pid: of the process that holds the model.
    """

    def __init__(self, requests: StreamWriter, answers: StreamReader, pid: int) -> None:
        self._requests = requests
        self._answers = answers
        self._turn = asyncio.Lock()
        self.pid = pid

    async def ask(self, prompt: str, num_output_tokens: int) -> Answer:
        """See `Asker`; the time of a request begins when its turn has come."""
        async with self._turn:
            request = {"prompt": prompt, "num_output_tokens": num_output_tokens}
            self._requests.write(json.dumps(request).encode() + b"\n")
            line = await self._answers.readline()
        if not line:
            raise RequestFailedError("the process ended; its log says more")
        values = json.loads(line)
        return Answer(**values | {"piece_seconds": tuple(values["piece_seconds"])})


@asynccontextmanager
async def generate(directory: Path, log_file: Path) -> AsyncIterator[Generate]:
    """Load the model, and end the process afterwards."""
    with log_file.open("ab") as log:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, str(_WORKER), str(directory)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            limit=_MAX_LINE_BYTES,
        )
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            if not await process.stdout.readline():
                raise ServerFailedError(f"the model could not be loaded; see {log_file}")
            yield Generate(process.stdin, process.stdout, process.pid)
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()
