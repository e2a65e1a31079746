"""The flags of the server, by the groups of its help."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace_server.backends.native import AdmissionLimits, SupervisionLimits
from headrace_server.engine.settings import EngineSettings, SimulatedSettings
from headrace_server.flag import Flag
from headrace_server.flag_values import (
    api_key,
    config_file,
    device,
    file,
    host,
    model,
    new_path,
    one_of,
    seconds,
    served_name,
    size_bytes,
    switch,
    template_file,
    whole_number,
)
from headrace_server.text.parsing.formats import ToolCallFormat

if TYPE_CHECKING:
    from collections.abc import Mapping


_ENGINE: Final = EngineSettings()
_SIMULATED: Final = SimulatedSettings()
_ADMISSION: Final = AdmissionLimits()
_SUPERVISION: Final = SupervisionLimits()

BACKEND: Final = Flag(
    "--backend",
    one_of("native", "simulated"),
    "native",
    "what makes the tokens: native, the engine with a model, or simulated, one without for tests",
    metavar="NAME",
)

CONFIG: Final = Flag(
    "--config",
    config_file,
    None,
    "a TOML or YAML file with the flags of headrace serve, such as max-num-seqs: 32; flags and "
    "variables win over it",
    shown_default="none",
    metavar="FILE",
)

FLAGS: Final[Mapping[str, tuple[Flag, ...]]] = {
    "model": (
        Flag(
            "--model",
            model,
            "default",
            "a model directory, a GGUF file or a Hub id",
            shown_default="SmolLM2-135M-Instruct, which is built in",
            metavar="MODEL",
            backend="native",
        ),
        Flag(
            "--served-model-name",
            served_name,
            None,
            "the names that requests may use for the model; the first is its name",
            shown_default="after the model",
            metavar="NAME",
            is_list=True,
        ),
        Flag(
            "--chat-template",
            template_file,
            None,
            "a Jinja file in place of the model's own chat template",
            shown_default="the model's own",
            metavar="FILE",
        ),
        Flag(
            "--tool-call-parser",
            one_of("auto", *(form.value for form in ToolCallFormat)),
            "auto",
            "the form in which the model calls tools by itself: hermes, llama3_json or mistral; "
            "auto goes by its chat template",
            metavar="FORM",
        ),
        Flag(
            "--max-model-len",
            whole_number(16),
            _ENGINE.max_context_length,
            "caps the context: the tokens of a prompt and its answer together",
            shown_default="the model's own",
        ),
        Flag(
            "--seed",
            whole_number(-(2**63), 2**63 - 1),
            None,
            "makes a server that gets the same requests in the same order give the same answers; "
            "a request's own seed wins",
            shown_default="none, answers vary",
        ),
    ),
    "endpoint": (
        Flag(
            "--host",
            host,
            "127.0.0.1",
            "the address to listen on; 0.0.0.0 opens the server to the network: have keys and TLS "
            "then",
            metavar="ADDRESS",
            own_variable="HEADRACE_GRPC_HOST",
            file_names=("grpc-host", "host"),
        ),
        Flag(
            "--port",
            whole_number(0, 65_535),
            1920,
            "the port of gRPC; 0 chooses a free one",
            own_variable="HEADRACE_GRPC_PORT",
            file_names=("grpc-port",),
        ),
        Flag(
            "--unix-socket",
            new_path,
            None,
            "a socket to listen on beside the port, without TLS, for this user alone",
            shown_default="none",
            metavar="PATH",
        ),
        Flag(
            "--metrics-port",
            whole_number(0, 65_535),
            None,
            "the port of the metrics for Prometheus; 0 chooses a free one",
            shown_default="none, metrics are off",
        ),
        Flag(
            "--metrics-host",
            host,
            "127.0.0.1",
            "the address that the metrics listen on; whoever reaches it may read them",
            metavar="ADDRESS",
        ),
    ),
    "security": (
        Flag(
            "--api-key",
            api_key,
            None,
            "a key that callers need; it can be given several times; a file or the variable shows "
            "keys to fewer eyes",
            shown_default="none, callers need no key",
            metavar="KEY",
            is_list=True,
            is_repeated=True,
        ),
        Flag(
            "--api-key-file",
            file,
            None,
            "a file of keys, a line such as: alice KEY for each; it is read again when it changes",
            shown_default="none",
            metavar="FILE",
        ),
        Flag(
            "--ssl-certfile",
            file,
            None,
            "the certificate of the server in PEM, which turns TLS on; it is read again when it "
            "changes",
            shown_default="none, there is no TLS",
            metavar="FILE",
        ),
        Flag(
            "--ssl-keyfile",
            file,
            None,
            "the private key of the certificate",
            shown_default="none",
            metavar="FILE",
        ),
        Flag(
            "--ssl-ca-certs",
            file,
            None,
            "the authorities, one of which must have signed the certificate of each client",
            shown_default="none, clients need no certificate",
            metavar="FILE",
        ),
    ),
    "engine": (
        BACKEND,
        Flag(
            "--device",
            device,
            _ENGINE.device,
            "where the model runs: cpu, cuda or cuda:N; auto takes the GPU where there is one",
            metavar="DEVICE",
            backend="native",
        ),
        Flag(
            "--dtype",
            one_of("auto", "float32", "bfloat16", "float16"),
            _ENGINE.dtype,
            "the numbers of the weights: float32, bfloat16 or float16; auto takes fp16 on a CPU "
            "and bf16 on a GPU",
            metavar="TYPE",
            backend="native",
        ),
        Flag(
            "--quantization",
            one_of("auto", "none", "fp16", "int8", "q4"),
            _ENGINE.quantization,
            "how weights are kept on a CPU: none, fp16, int8 or q4; auto takes fp16, unless "
            "--dtype says otherwise",
            metavar="FORMAT",
            backend="native",
        ),
        Flag(
            "--num-threads",
            whole_number(1, 1024),
            _ENGINE.num_threads,
            "threads of the model",
            shown_default="one per core",
            backend="native",
        ),
    ),
    "memory": (
        Flag(
            "--kv-cache-bytes",
            size_bytes,
            _ENGINE.kv_cache_bytes,
            "memory for the context of running requests, such as 2GiB",
            shown_default="12,288 tokens or one context on a CPU, 90% of what is free on a GPU",
            metavar="SIZE",
        ),
        Flag(
            "--prefix-cache",
            switch,
            True,
            "whether prompts that begin alike are computed once while the memory lasts",
            shown_default="on",
            metavar="on|off",
        ),
    ),
    "limits": (
        Flag(
            "--max-num-seqs",
            whole_number(1, 4096),
            _ENGINE.max_num_sequences,
            "requests that run together",
        ),
        Flag(
            "--max-num-batched-tokens",
            whole_number(1, 1_048_576),
            _ENGINE.max_num_batched_tokens,
            "tokens of all requests in one step; at least --max-num-seqs",
            shown_default="256 on a CPU, 8192 on a GPU",
        ),
        Flag(
            "--max-queued-requests",
            whole_number(0, 1_000_000),
            _ADMISSION.max_queued_requests,
            "requests that may wait for their turn; more are refused at once",
        ),
        Flag(
            "--max-queued-tokens",
            whole_number(1),
            _ADMISSION.max_queued_tokens,
            "prompt tokens of all requests that wait",
        ),
    ),
    "times": (
        Flag(
            "--shutdown-timeout",
            seconds(0.0),
            30.0,
            "how long SIGTERM or Ctrl-C waits for running answers; a second signal ends at once",
            metavar="SECONDS",
        ),
        Flag(
            "--lame-duck",
            seconds(0.0),
            0.0,
            "keep telling new callers to go elsewhere for at least this long before the end, "
            "so that load balancers notice",
            metavar="SECONDS",
        ),
        Flag(
            "--stall-timeout",
            seconds(0.1),
            30.0,
            "a client that leaves its answer unread for this long loses it",
            metavar="SECONDS",
        ),
        Flag(
            "--engine-heartbeat-timeout",
            seconds(1.0),
            _SUPERVISION.step_timeout_seconds,
            "an engine at work that is silent for this long is started again; choose more than "
            "the longest step takes",
            metavar="SECONDS",
        ),
    ),
    "logs": (
        Flag(
            "--log-level",
            one_of("debug", "info", "warning", "error"),
            "info",
            "what is told on stderr: debug, info, warning or error; info has one line for "
            "each call",
            metavar="LEVEL",
        ),
        Flag(
            "--log-format",
            one_of("auto", "text", "json"),
            "auto",
            "text for people or json for programs; auto takes text on a terminal",
            metavar="FORMAT",
        ),
    ),
    "configuration": (CONFIG,),
    "simulation (with --backend simulated)": (
        Flag(
            "--simulated-step-seconds",
            seconds(0.0),
            _SIMULATED.step_seconds,
            "how long a step takes",
            metavar="SECONDS",
            backend="simulated",
        ),
        Flag(
            "--simulated-load-seconds",
            seconds(0.0),
            _SIMULATED.load_seconds,
            "how long loading takes",
            metavar="SECONDS",
            backend="simulated",
        ),
        Flag(
            "--simulated-faults",
            switch,
            False,
            "let the fault tokens of the simulated vocabulary act",
            shown_default="off",
            metavar=None,
            backend="simulated",
        ),
    ),
}
