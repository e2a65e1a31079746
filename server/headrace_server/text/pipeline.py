"""From a request to the deltas of its answer: prompt → tokens → backend → text."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Self

from headrace_server.backends.interface import BackendState
from headrace_server.errors import EngineUnavailableError, InvalidFieldError
from headrace_server.text.answer import Answer
from headrace_server.text.assembler import CandidateAssembler
from headrace_server.text.backend_request import to_backend_request
from headrace_server.text.constraint import constraint_field
from headrace_server.text.deadlines import Deadlines
from headrace_server.text.delta import FinishReason
from headrace_server.text.model import TextModel
from headrace_server.text.output_form import check_tool_use, output_form, shown_token_ids
from headrace_server.text.parsing.output_parser import OutputParser
from headrace_server.text.prompt import detokenize, prompt_length, tokenize
from headrace_server.text.prompt_report import PromptReport
from headrace_server.text.seeds import Seeds
from headrace_server.text.workers import TextWorkers
from headrace_server.unused_memory import release_unused_memory

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path
    from types import TracebackType

    from headrace_server.backends.interface import Backend, BackendModel
    from headrace_server.engine.messages import Constraint
    from headrace_server.text.constraint import ConstraintChecker
    from headrace_server.text.generation import GenerationRequest, Prompt, TokenizedPrompt
    from headrace_server.text.parsing.formats import ToolCallFormat

# Seconds after which a caller is told to ask again whether the engine is ready.
RETRY_AFTER_SECONDS = 1.0


class TextPipeline:
    """Text in, text out, on top of a backend that knows tokens only.

    Leaving it drops the texts that wait to be tokenized.

    Args:
        backend: where the tokens come from.
        constraints: checks the constraints of requests; None refuses them.
        num_threads: for tokenizing short texts, and as many for long ones.
        chat_template_file: a template in place of the model's own.
        call_format: that of the model's calls of tools; None goes by its template.
        seed: see `Seeds`.
    """

    def __init__(
        self,
        backend: Backend,
        *,
        constraints: ConstraintChecker | None = None,
        num_threads: int = 2,
        chat_template_file: Path | None = None,
        call_format: ToolCallFormat | None = None,
        seed: int | None = None,
    ) -> None:
        self._backend = backend
        self._constraints = constraints
        self._workers = TextWorkers(num_threads)
        self._chat_template_file = chat_template_file
        self._call_format = call_format
        self._seeds = Seeds(seed)
        self._model: TextModel | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._workers.close()

    @property
    def takes_constraints(self) -> bool:
        """Whether the form of answers can be constrained."""
        return self._constraints is not None

    @property
    def model(self) -> TextModel | None:
        """The model; None until `load_model`."""
        return self._model

    async def load_model(self, model: BackendModel) -> None:
        """Read the files of the model that the backend has loaded.

        Raises:
            ModelFileError: one is missing or broken.
        """
        self._model = await asyncio.to_thread(
            TextModel.load, model, self._chat_template_file, self._call_format
        )
        await asyncio.to_thread(release_unused_memory)
        if self._constraints is not None:
            self._constraints.use_model(model.directory, model.vocabulary_size)

    async def tokenize(self, prompt: Prompt) -> TokenizedPrompt:
        """Turn a prompt into tokens, however long it is.

        Raises:
            InvalidFieldError: the prompt cannot be tokenized.
            EngineUnavailableError: there is no model yet.
            OverloadedError: too much text is waiting.
        """
        return await self._tokenize(self._require_model(), prompt, within_context=False)

    async def detokenize(self, token_ids: Sequence[int], include_special_tokens: bool) -> str:
        """Turn token ids into text; bytes that are not UTF-8 become U+FFFD.

        Raises:
            InvalidFieldError: an id is not one of the model's.
            EngineUnavailableError: there is no model yet.
            OverloadedError: too much text is waiting.
        """
        work = partial(
            detokenize,
            self._require_model(),
            token_ids,
            include_special_tokens=include_special_tokens,
        )
        return await self._workers.run(len(token_ids), work)

    @asynccontextmanager
    async def generate(self, request: GenerationRequest) -> AsyncIterator[Answer]:
        """Answer a request. Leaving stops the work in the backend.

        Raises:
            InvalidFieldError: the model cannot take the request.
            InvalidConstraintError: its constraint cannot be followed.
            ContextLengthExceededError: prompt and output do not fit the context.
            OverloadedError: the queue is full.
            EngineUnavailableError: there is no model yet, or no engine now.
            QueueTimeoutError: max_queue_duration passed.
        """
        deadlines = Deadlines.of(request, asyncio.get_running_loop().time())
        model = self._require_model()
        check_tool_use(model, request)
        prepared = await self._prepare_in_time(model, request, deadlines)
        token_ids = () if prepared is None else prepared.token_ids
        wants_logprobs = request.num_prompt_top_logprobs is not None
        report = PromptReport(token_ids, model.tokenizer.decoder, wants_logprobs=wants_logprobs)
        candidates = _assemblers(model, request, prepared)
        backend_request = None
        if prepared is None:
            _end(candidates, FinishReason.TIME_LIMIT)
        else:
            backend_request = to_backend_request(
                model, request, token_ids, prepared.constraint, self._seeds.draw()
            )
            if backend_request is None:
                self._require_backend()
                _end(candidates, FinishReason.MAX_OUTPUT_TOKENS)
        async with AsyncExitStack() as backend_stream:
            stream = None
            if backend_request is not None:
                submission = self._backend.submit(backend_request)
                stream = await backend_stream.enter_async_context(submission)
            yield Answer(request, report, candidates, deadlines, stream, backend_stream)

    async def _prepare_in_time(
        self, model: TextModel, request: GenerationRequest, deadlines: Deadlines
    ) -> _Prepared | None:
        """Return what the backend is to read; None when the answer's time is over before."""
        try:
            async with asyncio.timeout_at(deadlines.start):
                tokenized = await self._tokenize(
                    model,
                    request.prompt,
                    within_context=True,
                    has_form=request.constraint is not None,
                )
                constraint = await self._compile(request)
        except TimeoutError:
            deadlines.expire_start()
            return None
        return _Prepared(tokenized.token_ids, tokenized.text or "", constraint)

    async def _compile(self, request: GenerationRequest) -> Constraint | None:
        spec = request.constraint
        if spec is None:
            return None
        field = constraint_field(spec)
        if self._constraints is None:
            raise InvalidFieldError(field, "This server takes no constraints; leave it out.")
        return await self._constraints.compile(spec, field, request.caller)

    async def _tokenize(
        self, model: TextModel, prompt: Prompt, *, within_context: bool, has_form: bool = False
    ) -> TokenizedPrompt:
        work = partial(tokenize, model, prompt, within_context=within_context, has_form=has_form)
        return await self._workers.run(prompt_length(prompt), work)

    def _require_model(self) -> TextModel:
        if self._model is None:
            message = "The model is not loaded yet; try again later."
            raise EngineUnavailableError(message, RETRY_AFTER_SECONDS)
        return self._model

    def _require_backend(self) -> None:
        if self._backend.status.state is not BackendState.READY:
            message = "The engine is not ready; try again later."
            raise EngineUnavailableError(message, RETRY_AFTER_SECONDS)


def _assemblers(
    model: TextModel, request: GenerationRequest, prepared: _Prepared | None
) -> list[CandidateAssembler]:
    form = None if prepared is None else output_form(model, request, prepared.text)
    return [
        CandidateAssembler(
            request,
            index,
            model.tokenizer.decoder,
            after=() if prepared is None else prepared.token_ids,
            parser=None if form is None else OutputParser(form),
            shown_token_ids=frozenset() if form is None else shown_token_ids(model),
        )
        for index in range(request.num_candidates)
    ]


def _end(candidates: Sequence[CandidateAssembler], reason: FinishReason) -> None:
    for candidate in candidates:
        candidate.end(reason)


@dataclass(frozen=True, slots=True)
class _Prepared:
    """What is made of a request before the backend sees it."""

    token_ids: tuple[int, ...]
    text: str
    constraint: Constraint | None
