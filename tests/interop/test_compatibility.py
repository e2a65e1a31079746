"""Clients that are older or newer than the server."""

import asyncio
import json
import os
import subprocess
import sys

import pytest
import pytest_asyncio
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from grpc import aio

from headrace.v1 import inference_service_pb2 as pb
from headrace.v1 import model_service_pb2
from tests.interop.answers import join
from tests.interop.clients import HERE, ROOT
from tests.interop.server import server_process

RELEASED = ROOT / "protos" / "released.binpb"
REQUEST = {
    "sampling": {"seed": 1},
    "stopping": {"max_output_tokens": 20, "ignore_end_of_text": True},
}
# Fields 1000 to 1003: a varint, 8 bytes, a text and 4 bytes.
UNKNOWN = b"\xc0\x3e\x07" + b"\xc9\x3e12345678" + b"\xd2\x3e\x05later" + b"\xdd\x3e1234"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def server():
    async with server_process("--simulated-step-seconds", 0) as server:
        yield server


def message_with_unknown_fields():
    """A request with unknown fields, also in a message within it, and what it is without."""
    known = pb.GenerateRequest(text="Once", **REQUEST)
    sampling = known.sampling.SerializeToString() + UNKNOWN
    # What occurs twice is merged.
    nested = b"\x32" + bytes([len(sampling)]) + sampling
    return known.SerializeToString() + nested + UNKNOWN, known.SerializeToString()


@pytest.mark.asyncio(loop_scope="session")
async def test_fields_of_a_newer_client_are_ignored(server):
    """What the server does not know changes nothing, wherever it is."""
    newer, known = message_with_unknown_fields()
    assert pb.GenerateRequest.FromString(newer).sampling.seed == 1
    assert len(newer) > len(known) + 2 * len(UNKNOWN)
    async with aio.insecure_channel(server.address) as channel:
        generate = channel.unary_stream(
            "/headrace.v1.InferenceService/Generate", None, pb.GenerateResponse.FromString
        )
        with_unknown, without = [
            join([response async for response in generate(message)]) for message in (newer, known)
        ]
        get_model = channel.unary_unary(
            "/headrace.v1.ModelService/GetModel",
            None,
            model_service_pb2.GetModelResponse.FromString,
        )
        assert (await get_model(UNKNOWN)).model.name == "simulated"
    assert with_unknown == without
    assert with_unknown.usage["outputTokenCount"] == 20


@pytest.mark.asyncio(loop_scope="session")
async def test_a_choice_of_a_newer_client_is_refused(server):
    """A value that the server does not know, of what it has to know, is an error and no guess."""
    request = {"chat": {"messages": [{"role": 99, "content": "Hi"}]}, **REQUEST}
    async with aio.insecure_channel(server.address) as channel:
        generate = channel.unary_stream(
            "/headrace.v1.InferenceService/Generate",
            pb.GenerateRequest.SerializeToString,
            pb.GenerateResponse.FromString,
        )
        with pytest.raises(aio.AioRpcError, match=r"messages\[0\]\.role") as error:
            await generate(pb.GenerateRequest(**request)).read()
    assert error.value.code().name == "INVALID_ARGUMENT"


@pytest.fixture(scope="module")
def released_stubs(tmp_path_factory):
    """A folder with stubs made from the released contract."""
    folder = tmp_path_factory.mktemp("released")
    files = FileDescriptorSet.FromString(RELEASED.read_bytes()).file
    own = [file.name for file in files if file.name.startswith("headrace/")]
    command = [sys.executable, "-m", "grpc_tools.protoc", f"--descriptor_set_in={RELEASED}"]
    outputs = [f"--python_out={folder}", f"--grpc_python_out={folder}"]
    subprocess.run([*command, *outputs, *own], check=True)
    for package in ("headrace", "headrace/v1"):
        (folder / package / "__init__.py").touch()
    return folder


@pytest.mark.asyncio(loop_scope="session")
async def test_stubs_of_the_released_contract_still_work(server, released_stubs):
    """A client that was made from the released contract gets from this server what it got then."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, HERE / "released" / "client.py", server.address),
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(released_stubs)},
    )
    out, _ = await process.communicate()
    assert process.returncode == 0
    told = json.loads(out)
    assert told["stubs"].startswith(str(released_stubs))
    assert told["model"]["model"]["name"] == "simulated"
    assert told["tokens"] == [195, 169]
    assert told["error"] == "NOT_FOUND"
    for prompt in ("text", "chat"):
        assert told[prompt]["finish"] == "FINISH_REASON_MAX_OUTPUT_TOKENS"
        assert told[prompt]["usage"]["outputTokenCount"] == 20
        assert told[prompt]["text"]


def test_the_contract_is_compared_with_the_released_one():
    """`make contract`, which CI runs, has buf look for what would break clients."""
    run = subprocess.run(["make", "-n", "contract"], cwd=ROOT, capture_output=True, text=True)
    assert "buf breaking --against protos/released.binpb" in run.stdout
