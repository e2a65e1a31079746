"""ModelService over a real channel."""

import grpc

from headrace.v1 import inference_service_pb2 as pb
from headrace.v1 import model_pb2, sampling_pb2
from headrace.v1.model_service_pb2 import GetModelRequest, ListModelsRequest
from tests.server.running_server import collect, eventually, failure, running_server


async def test_a_model_is_described_by_each_of_its_names():
    """Name, alias and the empty name get the same model, which requests may call so too."""
    async with running_server("--served-model-name", "big/one", "alias", "other") as under:
        models = [
            (await under.models.GetModel(GetModelRequest(name=name))).model
            for name in ("big/one", "alias", "other", "")
        ]
        assert models == [models[0]] * 4
        model = models[0]
        assert (model.name, list(model.aliases)) == ("big/one", ["alias", "other"])
        assert (model.context_length, model.vocabulary_size) == (8192, 263)
        assert model.default_sampling == sampling_pb2.Sampling(
            temperature=1,
            top_p=1,
            top_k=0,
            min_p=0,
            presence_penalty=0,
            frequency_penalty=0,
            repetition_penalty=1,
            candidate_count=1,
        )
        assert list(model.end_of_text_token_ids) == [256, 258]
        assert list(model.capabilities) == [
            model_pb2.CAPABILITY_COMPLETION,
            model_pb2.CAPABILITY_CHAT,
            model_pb2.CAPABILITY_CONSTRAINT,
            model_pb2.CAPABILITY_TOOLS,
        ]
        assert len(model.tokenizer_fingerprint) == 64
        assert model.ready_time.ToSeconds() > 1_700_000_000
        for name in ("big/one", "alias", "other", ""):
            await collect(under.generate(model=name, stopping={"max_output_tokens": 1}))


async def test_models_are_listed_in_pages():
    """The one model is the first page, whatever its size, and there is no other."""
    async with running_server() as under:
        for size in (0, 1, 1000):
            page = await under.models.ListModels(ListModelsRequest(page_size=size))
            assert [model.name for model in page.models] == ["simulated"]
            assert page.next_page_token == ""
        for request, field in [
            (ListModelsRequest(page_size=-1), "page_size"),
            (ListModelsRequest(page_size=1001), "page_size"),
            (ListModelsRequest(page_token="1"), "page_token"),
        ]:
            error = await failure(under.models.ListModels(request))
            assert (error.code, error.field) == (grpc.StatusCode.INVALID_ARGUMENT, field)


async def test_a_loading_model_is_unavailable_with_its_progress():
    """The port is open at once; until the model is ready calls are told phase and per cent."""
    async with running_server("--simulated-load-seconds", 1, until_ready=False) as under:
        backend = under.backend
        await eventually(lambda: "%" in backend.status.detail, lambda: backend.status)
        calls = [
            under.models.GetModel(GetModelRequest()),
            under.models.ListModels(ListModelsRequest()),
            under.generate(),
            under.inference.Tokenize(pb.TokenizeRequest(text="a")),
            under.inference.Detokenize(pb.DetokenizeRequest(token_ids=[1])),
        ]
        for call in calls:
            error = await failure(call)
            assert (error.code, error.reason) == (
                grpc.StatusCode.UNAVAILABLE,
                "ENGINE_UNAVAILABLE",
            )
            assert "loading the simulated model" in error.message
            assert "%" in error.message
            assert error.retry_seconds > 0
