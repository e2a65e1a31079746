"""A measurement from the first connection to the printed figures."""

from __future__ import annotations

import asyncio
from functools import partial
from random import Random
from typing import TYPE_CHECKING

from headrace.cli.bench.endpoint import RequestFailedError
from headrace.cli.bench.load import run_load
from headrace.cli.bench.progress import shown_progress
from headrace.cli.bench.prompts import find_token_ids, random_prompts
from headrace.cli.bench.recording import Run
from headrace.cli.bench.report import to_json, to_table
from headrace.cli.bench.summary import summarize
from headrace.cli.errors import CommandError, ExitCode
from headrace.cli.terminal import note

if TYPE_CHECKING:
    from headrace.cli.bench.endpoint import Endpoint
    from headrace.cli.bench.plan import Plan


def measure(endpoint: Endpoint, plan: Plan, *, as_json: bool) -> int:
    """Send the load and print the figures, after Ctrl-C those that there are.

    Returns:
        The exit status.

    Raises:
        CommandError: the server does not answer as is asked, even before the load.
    """
    run, exit_code = Run(), ExitCode.DONE
    try:
        asyncio.run(_send_all(endpoint, plan, run))
    except KeyboardInterrupt:
        exit_code = ExitCode.INTERRUPTED
    except RequestFailedError as error:
        raise CommandError(str(error)) from None
    if run.recordings:
        summary = summarize(run)
        print((to_json if as_json else to_table)(endpoint.name, plan, summary))
        if summary.failures and exit_code is ExitCode.DONE:
            exit_code = ExitCode.FAILURE
    else:
        note("stopped before anything was measured")
    return exit_code


async def _send_all(endpoint: Endpoint, plan: Plan, run: Run) -> None:
    random = Random(plan.seed)  # noqa: S311 - prompts are no secret
    async with endpoint:
        token_ids = await find_token_ids(endpoint)
        prompts = partial(random_prompts, token_ids, plan.num_prompt_tokens, random)
        warm_up = Run()
        await run_load(endpoint, prompts(plan.num_warmup_requests), warm_up, plan)
        if failures := [r.failure for r in warm_up.recordings if r.failure is not None]:
            raise RequestFailedError(failures[0])
        async with shown_progress(run, plan.num_requests):
            await run_load(endpoint, prompts(plan.num_requests), run, plan)
