"""How the peers are started."""

from pathlib import Path

from comparison.environment import Environment
from comparison.model_files import ModelFiles
from comparison.peer import Ports, Sizing
from comparison.peers.find import find_peers
from comparison.peers.headrace import headrace
from comparison.peers.llama_cpp import llama_cpp
from comparison.peers.transformers_serve import transformers_serve

MODEL = ModelFiles("default", Path("q4.gguf"), Path("f16.gguf"), Path("model"))
SIZING, PORTS = Sizing(num_streams=4, context_tokens=600), Ports(http=81, grpc=82)


def server_flags(variant):
    peer = headrace(variant, MODEL)
    server, _ = peer.launch(SIZING, PORTS).commands
    return peer.name, server[server.index("--model") + 2 :]


def test_a_variant_of_headrace_is_a_quantization_or_flags():
    """Everything else is as a user starts it."""
    assert server_flags("default") == ("Headrace", ())
    assert server_flags("q4") == ("Headrace q4", ("--quantization", "q4"))
    assert server_flags("slim=--dtype float32 --num-threads 1") == (
        "Headrace slim",
        ("--dtype", "float32", "--num-threads", "1"),
    )


def test_the_gateway_of_headrace_asks_its_server():
    """Both are started at once."""
    server, gateway = headrace("default", MODEL).launch(SIZING, PORTS).commands
    assert server[server.index("--port") + 1] == "82"
    assert gateway[gateway.index("--port") + 1] == "81"
    assert gateway[gateway.index("--upstream") + 1] == "127.0.0.1:82"


def test_llama_cpp_has_a_slot_with_room_for_each_stream():
    """Its context is shared evenly among the slots."""
    peer = llama_cpp("llama-server", "1", MODEL.f16_gguf, "F16")
    [command] = peer.launch(SIZING, PORTS).commands
    assert command[command.index("--parallel") + 1] == "4"
    assert int(command[command.index("--ctx-size") + 1]) // 4 >= 600


def test_transformers_has_pages_for_all_streams():
    """A page holds 256 tokens, and the token that is being made needs one too."""
    peer = transformers_serve(Environment(Path("env"), "transformers"), "1", MODEL.directory)
    [command] = peer.launch(SIZING, PORTS).commands
    assert command[command.index("--cb-num-blocks") + 1] == str(4 * 3)


def test_a_rival_that_is_not_installed_is_named_with_the_way_to_get_it(tmp_path):
    """It is left out and no error."""
    peers = find_peers(["default"], ["vllm"], {}, tmp_path, MODEL)
    assert [peer.name for peer in peers.present] == ["Headrace"]
    assert [(one.name, one.reason) for one in peers.absent] == [
        ("vllm", "not installed; run `python benchmarks/rivals.py install vllm`")
    ]
