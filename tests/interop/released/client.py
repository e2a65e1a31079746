"""Calls the server that is named by stubs of the released contract, and tells what it got."""

from __future__ import annotations

import json
import sys

import grpc
from google.protobuf.json_format import MessageToDict

from headrace.v1 import (
    inference_service_pb2,
    inference_service_pb2_grpc,
    model_service_pb2,
    model_service_pb2_grpc,
)
from headrace.v1.inference_service_pb2 import GenerateRequest, TokenizeRequest
from headrace.v1.prompt_pb2 import ROLE_USER, Chat, ChatMessage
from headrace.v1.sampling_pb2 import Sampling
from headrace.v1.stopping_pb2 import FinishReason, Stopping


def main() -> None:
    with grpc.insecure_channel(sys.argv[1]) as channel:
        inference = inference_service_pb2_grpc.InferenceServiceStub(channel)
        models = model_service_pb2_grpc.ModelServiceStub(channel)
        told = {
            "stubs": inference_service_pb2.__file__,
            "model": MessageToDict(models.GetModel(model_service_pb2.GetModelRequest())),
            "tokens": list(inference.Tokenize(TokenizeRequest(text="é")).token_ids),
            "text": generate(inference, text="Once"),
            "chat": generate(
                inference, chat=Chat(messages=[ChatMessage(role=ROLE_USER, content="Hi")])
            ),
            "error": error_of(inference),
        }
    print(json.dumps(told))


def generate(inference, **prompt) -> dict:
    request = GenerateRequest(
        **prompt,
        sampling=Sampling(seed=1),
        stopping=Stopping(max_output_tokens=20, ignore_end_of_text=True),
    )
    responses = list(inference.Generate(request))
    deltas = [delta for response in responses for delta in response.deltas]
    return {
        "text": "".join(delta.text for delta in deltas),
        "finish": FinishReason.Name(deltas[-1].finish.reason),
        "usage": MessageToDict(responses[-1].usage),
    }


def error_of(inference) -> str:
    try:
        list(inference.Generate(GenerateRequest(model="gpt-4", text="Once")))
    except grpc.RpcError as error:
        return error.code().name
    return "OK"


if __name__ == "__main__":
    main()
