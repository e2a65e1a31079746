"""What each example of docs/command-line.md must do, by its place on the page."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Expected:
    """What an example does.

    Attributes:
        says: patterns, each of which its output has; ^ and $ are ends of lines.
        status: its exit status; 130 is what a shell makes of an end by Ctrl-C.
        interrupted: whether Ctrl-C is pressed when the output has the patterns.
        held_at: a pattern; when the output has it, the command is stopped until the log has its
            say, so that it is the server that keeps the deadline, not the client that hangs up.
        logged: the status of the answer that the server's log tells.
    """

    says: tuple[str, ...]
    status: int = 0
    interrupted: bool = False
    held_at: str | None = None
    logged: str | None = None


def says(*patterns: str, status: int = 0, logged: str | None = None) -> Expected:
    return Expected(patterns, status, logged=logged)


def interrupted(*patterns: str, status: int = 130, logged: str | None = "CANCELLED") -> Expected:
    return Expected(patterns, status, interrupted=True, logged=logged)


def late(held_at: str, *patterns: str, status: int) -> Expected:
    return Expected(patterns, status, held_at=held_at, logged="DEADLINE_EXCEEDED")


SERVICES = (
    r"^grpc\.health\.v1\.Health\n"
    r"grpc\.reflection\.v1\.ServerReflection\n"
    r"grpc\.reflection\.v1alpha\.ServerReflection\n"
    r"headrace\.v1\.InferenceService\n"
    r"headrace\.v1\.ModelService$"
)
END_OF_TEXT = '"reason": "FINISH_REASON_END_OF_TEXT"'
CITY = r'\{\\"city\\": \\".*\\", \\"is_capital\\": (true|false)\}'
INVALID = r"sampling\.temperature must be from 0 to 2\."
TOO_LATE = "[Dd]eadline.?[Ee]xceeded"
NO_CERTIFICATE = "Failed to dial target host"

EXPECTED = {
    "Services 1": says(rf"\A{SERVICES}\n\Z"),
    "Services 2": says("InferenceService/Generate\n", "Health/Watch\n", "ModelService/GetModel\n"),
    "Services 3": says(
        r"  rpc Tokenize \( \.headrace\.v1\.TokenizeRequest \)",
        r"^rpc Generate \( .* \) returns \( stream \.headrace\.v1\.GenerateResponse \);$",
    ),
    "Services 4": says("rpc ListModels", "rpc Watch", "rpc ServerReflectionInfo"),
    "Services 5": says(r"oneof prompt \{", r'"stop_sequences": \[', "ROLE_UNSPECIFIED"),
    "Services 6": says('"name": "headrace.v1.ModelService"', r'"file_descriptor_proto": \[\s+"C'),
    "Text 1": says(
        r'\A\{\s+"prompt": \{\s+"token_count": \d+',
        '"finish"',
        '"output_token_count"',
        r'"total": "[\d.]+s"',
    ),
    "Text 2": says('"outputTokenCount"', '"promptTokenCount"'),
    "Text 3": says(r"\A(?!headrace:)[^{]+\Z"),
    "Text 4": says(r"\Adata: \{", r"data: \[DONE\]\s*\Z"),
    "Chat 1": says(r'"text": ".+"', r'(?s)\A(?!.*"deltas".*"deltas")'),
    "Chat 2": says(r"\A(?!headrace:)[^{]+\Z"),
    "Chat 3": says(r'"message":\{"role":"assistant","content":".+"'),
    "Token ids 1": says(r'"token_ids": \[\s+\d+', r'"prompt": \{\s+"token_count": 2\s'),
    "Candidates 1": says(
        r'(?s)"finish".*"candidate_index": 1.*"finish"', r'"deltas": \[\s+\{\s+"text"'
    ),
    "Stops 1": says(r'FINISH_REASON_STOP_SEQUENCE",\s+"stop_sequence": "(\.|\\n)"'),
    "Log probabilities 1": says(
        r'"token_bytes": "[A-Za-z0-9+/]+=*"', r'(?s)"top": \[.*"logprob": -\d.*"logprob": -\d'
    ),
    "Log probabilities 2": says(
        r'"token_bytes": "Mg=="\s+\}', '"logprob": -', r"(?s)\A(?!.*output_token_count)"
    ),
    "Forms 1": says(rf'"text": "{CITY}"', END_OF_TEXT),
    "Forms 2": says(r'\A\{"city": ".*", "is_capital": (true|false)\}\Z'),
    "Forms 3": says('"text": "(yes|no)"', END_OF_TEXT),
    "Tools 1": says(
        '"reason": "FINISH_REASON_TOOL_CALLS"',
        '"name": "weather"',
        r'"arguments_json": "\{\\"city\\": \\".*\\"\}"',
    ),
    "Tools 2": says('"text": ".+"', '"output_token_count"'),
    "Tokens 1": says(r'"token_ids": \[\s+\d+', '"token_count": 5', '"text": "Hello"'),
    "Tokens 2": says('"tokenCount": ', '"text": ".*Hello.*"'),
    "Tokens 3": says(r'\A\{\s+"text": "Hi"\s+\}\n\Z'),
    "Tokens 4": says('"count":5', r'"tokens":\['),
    "Models 1": says(
        '"name": "simulated"', "CAPABILITY_CHAT", '"default_sampling"', '"context_length": 8192'
    ),
    "Models 2": says('"contextLength": 8192', '"name": "simulated"'),
    "Models 3": says("NAME +CONTEXT", "simulated +8192"),
    "Models 4": says('"object":"list"', '"id":"simulated"'),
    "Health 1": says(r'(?s)"status": "SERVING".*"status": "SERVING"'),
    "Health 2": interrupted('"status": "SERVING"', logged=None),
    "Health 3": says(r"\Aserving\n\Z"),
    "Health 4": says('"status":"ok"'),
    "Errors 1": says("Code: InvalidArgument", INVALID, '"reason":"INVALID_FIELD"', status=67),
    "Errors 2": says('"code": 3', INVALID, '"field":"sampling.temperature"', status=67),
    "Errors 3": says(
        '"code": "invalid_argument"', INVALID, "Cg1JTlZBTElEX0ZJRUxEEghoZWFkcmFjZQ", status=24
    ),
    "Errors 4": says(r'\A\{"reason":"INVALID_FIELD","domain":"headrace"\}\n?\Z'),
    "Errors 5": says(
        "HTTP/1.1 400", "(?i)x-request-id:", '"message":"temperature must be', status=22
    ),
    "Errors 6": says(r"headrace: --temperature must be from 0 to 2\.\n\Z", status=2),
    "Errors 7": says("no known field named max_tokens", status=1),
    "Deadlines 1": late('"text"', f"Code: {TOO_LATE}", status=68),
    "Deadlines 2": late('"text"', TOO_LATE, status=32),
    "Deadlines 3": late(".", "took longer than its timeout", status=1),
    "Deadlines 4": says("data: {", r"curl: \(28\)", status=28, logged="CANCELLED"),
    "Deadlines 5": says('"reason": "FINISH_REASON_TIME_LIMIT"', '"output_token_count"'),
    "Ctrl-C 1": interrupted('"text"'),
    "Ctrl-C 2": interrupted('"text"', status=8),
    "Ctrl-C 3": interrupted("data: {"),
    "Ctrl-C 4": interrupted("."),
    "Keys 1": says(SERVICES, '"name": "simulated"'),
    "Keys 2": says('"output_token_count": [1-4]\n'),
    "Keys 3": says('"tokenCount": 5', '"id":"simulated"'),
    "Keys 4": says("simulated +8192"),
    "Keys 5": says("There is no valid API key; send one", status=1),
    "Keys 6": says('"status": "SERVING"'),
    "TLS 1": says(SERVICES, '"tokenCount": 5'),
    "TLS 2": says('"id":"simulated"', "simulated +8192"),
    "TLS 3": says(NO_CERTIFICATE, "cannot validate certificate", status=1),
    "TLS 4": says(SERVICES, '"name": "simulated"'),
    "Certificates of clients 1": says('"token_count": 5', '"tokenCount": 5'),
    "Certificates of clients 2": says('"id":"simulated"', "simulated +8192"),
    "Certificates of clients 3": says(NO_CERTIFICATE, status=1),
    "The socket 1": says(SERVICES, '"name": "simulated"', "simulated +8192"),
    "Without reflection 1": says(r'(?s)"tokenCount": 5.*"tokenCount": 5'),
    "Without reflection 2": says('"reason":"INVALID_FIELD"', '"fieldViolations"', status=67),
    "Without reflection 3": says(r'\A\{\s+"status": "SERVING"\s+\}\n\Z'),
    "Packed requests 1": says('"completion_tokens":[1-4],'),
    "JSON 1": says(
        '"candidate_index": 0', r'"tool_calls": \[', '"output_token_count": 1', '"logprob": -'
    ),
    "JSON 2": says("Failure: .*already set", status=1),
    "Exit status 1": says("connection refused", status=1),
}
