"""A request that can be said over HTTP and over gRPC, and how such requests are drawn."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import strategies as st

from headrace.v1 import inference_service_pb2 as pb
from headrace.v1 import tool_pb2

CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
WEATHER = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "maxLength": 6},
        "unit": {"enum": ["°C", "°F", "🌡"]},
    },
    "required": ["city"],
    "additionalProperties": False,
}
TOOLS = (("get_weather", WEATHER), ("now", {"type": "object", "properties": {}}))
SCHEMAS = (
    WEATHER,
    {"type": "array", "items": {"enum": [1, "é", None, "日本"]}, "maxItems": 4},
    {"type": "string", "maxLength": 9},
)
FORMS = (
    *(("json_schema", schema) for schema in SCHEMAS),
    *(("regex", pattern) for pattern in ("[a-c]{2,5}🌊?", "(é|日){1,6}", r"\d{3}-\d")),
    *(
        ("choices", texts)
        for texts in (["a", "ab", "abc"], ["🌊", '"', "\n", "<|im_end|>", "日本"])
    ),
)
# What the simulated model writes now and then: a stop of several is cut by the pieces of a stream.
STOPS = ("a ", "e", "🌊", "日", "éb", ". ", "u日", "\n", "qqqq", "Ω")
MODES = {
    "auto": tool_pb2.TOOL_CHOICE_MODE_AUTO,
    "none": tool_pb2.TOOL_CHOICE_MODE_NONE,
    "required": tool_pb2.TOOL_CHOICE_MODE_REQUIRED,
}


@dataclass(frozen=True, slots=True)
class Wish:
    """What is asked for; None leaves a field out.

    Args:
        path: that of a chat or of completions.
        prompt: the text, or what the user says.
        sampling: fields with the same names on both fronts.
        num_answers: of one prompt.
        max_tokens: the most of each answer.
        min_tokens: the least.
        stop: texts that end an answer.
        logit_bias: by token ids.
        top_logprobs: how many rivals are told.
        form: the name of a form in the contract, and its value.
        tool_choice: a mode or the name of a tool.
        thinks: whether the template opens the reasoning.
    """

    path: str
    prompt: str
    sampling: dict[str, float]
    num_answers: int
    max_tokens: int
    min_tokens: int
    stop: tuple[str, ...]
    logit_bias: dict[int, float]
    top_logprobs: int | None
    form: tuple[str, Any] | None
    tool_choice: str | None
    thinks: bool

    def as_body(self) -> dict[str, Any]:
        """The body over HTTP."""
        body = dict(self.sampling) | {
            "n": self.num_answers,
            "max_tokens": self.max_tokens,
            "min_tokens": self.min_tokens,
            "stop": list(self.stop),
            "logit_bias": {str(token_id): bias for token_id, bias in self.logit_bias.items()},
        }
        if self.form is not None:
            body |= _form_fields(*self.form)
        if self.path == TEXT:
            return body | {
                "prompt": self.prompt,
                "logprobs": self.top_logprobs,
                "return_token_ids": True,
            }
        body["messages"] = [{"role": "user", "content": self.prompt}]
        body["chat_template_kwargs"] = {"thinks": self.thinks}
        if self.top_logprobs is not None:
            body |= {"logprobs": True, "top_logprobs": self.top_logprobs}
        return body | self._tool_fields()

    def as_call(self) -> pb.GenerateRequest:
        """The request over gRPC, whose answer comes in pieces."""
        request = pb.GenerateRequest(
            sampling=self.sampling
            | {"candidate_count": self.num_answers, "logit_bias": self.logit_bias},
            stopping={
                "max_output_tokens": self.max_tokens,
                "min_output_tokens": self.min_tokens,
                "stop_sequences": self.stop,
            },
            output={"token_ids": True, "top_logprobs": self.top_logprobs},
        )
        if self.form is not None:
            name, value = self.form
            given = {"texts": value} if name == "choices" else value
            given = json.dumps(value, ensure_ascii=False) if name == "json_schema" else given
            request.MergeFrom(pb.GenerateRequest(constraint={name: given}))
        if self.path == TEXT:
            request.text = self.prompt
        else:
            request.MergeFrom(pb.GenerateRequest(chat=self._chat()))
        return request

    def _tool_fields(self) -> dict[str, Any]:
        if self.tool_choice is None:
            return {}
        named = {"type": "function", "function": {"name": self.tool_choice}}
        return {
            "tools": [
                {"type": "function", "function": {"name": name, "parameters": schema}}
                for name, schema in TOOLS
            ],
            "tool_choice": self.tool_choice if self.tool_choice in MODES else named,
        }

    def _chat(self) -> dict[str, Any]:
        chat = {
            "messages": [{"role": "ROLE_USER", "content": self.prompt}],
            "template_arguments_json": json.dumps({"thinks": self.thinks}),
        }
        if self.tool_choice is None:
            return chat
        mode = MODES.get(self.tool_choice)
        choice = {"tool_name": self.tool_choice} if mode is None else {"mode": mode}
        tools = [
            {"name": name, "parameters_json": json.dumps(schema, ensure_ascii=False)}
            for name, schema in TOOLS
        ]
        return chat | {"tools": tools, "tool_choice": choice}


def _form_fields(name: str, value: Any) -> dict[str, Any]:
    match name:
        case "json_schema":
            wrapper = {"name": "it", "strict": True, "schema": value}
            return {"response_format": {"type": "json_schema", "json_schema": wrapper}}
        case "choices":
            return {"guided_choice": value}
        case _:
            return {"structured_outputs": {name: value}}


FORCED_CALLS = Wish(
    path=CHAT,
    prompt="How is the weather in Zürich? 🌦",
    sampling={"seed": 3, "temperature": 1.0},
    num_answers=2,
    max_tokens=300,
    min_tokens=0,
    stop=(),
    logit_bias={},
    top_logprobs=1,
    form=None,
    tool_choice="get_weather",
    thinks=True,
)
"""Two answers that are calls to their end."""

REASONING = replace(FORCED_CALLS, tool_choice="auto", max_tokens=40, stop=("éb", "日", ". "))
"""Two answers that reason, where the template opens that, until a stop."""

samplings = st.fixed_dictionaries(
    {
        "seed": st.integers(-(2**63), 2**63 - 1),
        "temperature": st.sampled_from((0.0, 0.5, 1.0, 2.0)),
    },
    optional={
        "top_p": st.sampled_from((0.5, 1.0)),
        "top_k": st.sampled_from((1, 5)),
        "presence_penalty": st.sampled_from((-2.0, 0.5, 2.0)),
        "frequency_penalty": st.sampled_from((-0.5, 1.0)),
        "repetition_penalty": st.sampled_from((0.5, 1.25)),
    },
)


@st.composite
def wishes(draw: st.DrawFn, most_tokens: int) -> Wish:
    """Draw a request whose answers have at most so many tokens, or twice that in a form."""
    # Hypothesis prefers what is small and simple, of which most answers are alike.
    chance = draw(st.randoms(use_true_random=True))
    path = chance.choice((CHAT, CHAT, TEXT))
    choices = (None, None, None, *MODES, "get_weather", "now")
    tool_choice = chance.choice(choices) if path == CHAT else None
    form = chance.choice((*[None] * len(FORMS), *FORMS)) if tool_choice in (None, "none") else None
    is_free = form is None and tool_choice in (None, "none", "auto")
    length = most_tokens if is_free else 2 * most_tokens
    max_tokens = chance.choice((1, length // 4, length // 2, length))
    return Wish(
        path=path,
        prompt=draw(st.text(min_size=1, max_size=20)),
        sampling=draw(samplings),
        num_answers=chance.randint(1, 4),
        max_tokens=max_tokens,
        min_tokens=chance.choice((0, 0, max_tokens // 3, max_tokens)) if is_free else 0,
        stop=tuple(chance.sample(STOPS, chance.randint(0, 3))),
        logit_bias=draw(
            st.dictionaries(st.integers(0, 255), st.sampled_from((-100.0, -2.0, 3.5)), max_size=3)
        ),
        top_logprobs=chance.choice((None, 0, 1, 3)),
        form=form,
        tool_choice=tool_choice,
        thinks=path == CHAT and chance.choice((False, True)),
    )
