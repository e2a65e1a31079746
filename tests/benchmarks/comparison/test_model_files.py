"""The model as others read it."""

from comparison.model_files import link_plain_weights


def test_weights_that_only_headrace_reads_are_not_linked(tmp_path):
    """A server that loads every file of weights would stumble over them."""
    converted = tmp_path / "converted" / "model-1"
    converted.mkdir(parents=True)
    names = ("config.json", "tokenizer.json", "model.safetensors", "model-00001-of-2.safetensors")
    for name in (*names, "quantized-blocks-00001.safetensors"):
        (converted / name).write_text(name)
    for _ in range(2):  # the second run finds what the first has made
        directory = link_plain_weights(converted, tmp_path / "models")
    assert directory == tmp_path / "models" / "model-1"
    assert {file.name: file.read_text() for file in directory.iterdir()} == {
        name: name for name in names
    }
