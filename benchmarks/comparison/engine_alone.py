"""What Headrace's engine makes without a front, measured in a process of its own."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from comparison.answer import WrongAnswerError
from comparison.load import RequestFailedError

if TYPE_CHECKING:
    from collections.abc import Sequence

_WORKER = Path(__file__).with_name("engine_worker.py")


async def measure_engine(
    flags: Sequence[str],
    prompts: Sequence[Sequence[int]],
    num_output_tokens: int,
    log_file: Path,
) -> float:
    """Return the tokens per second of scheduler and model alone.

    Args:
        flags: of `headrace-server`.
        prompts: token ids of each stream.
        num_output_tokens: of each answer.
        log_file: takes what the process writes to stderr.
    """
    load = {"prompts": [list(prompt) for prompt in prompts], "num_output_tokens": num_output_tokens}
    with log_file.open("ab") as log:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, str(_WORKER), *flags),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
        )
        try:
            output, _ = await process.communicate(json.dumps(load).encode())
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
    if process.returncode != 0:
        raise RequestFailedError(f"the engine alone ended with status {process.returncode}")
    result = json.loads(output)
    expected = len(prompts) * num_output_tokens
    if result["num_tokens"] != expected:
        raise WrongAnswerError(f"the engine made {result['num_tokens']} tokens, not {expected}")
    seconds: float = result["seconds"]
    return expected / seconds
