"""A conversion is complete or absent, whatever happens while it is made."""

import os
import threading
import time

import pytest

from headrace_server.engine.model_runner import ModelLoadError
from headrace_server.models import conversion_cache
from headrace_server.models.conversion_cache import cached_conversion


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("HEADRACE_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "model.gguf"
    path.write_bytes(b"content")
    return path


def write(text):
    def convert(directory):
        (directory / "weights").write_text(text)

    return convert


def fail(directory):
    raise AssertionError("converted again")


def contents(root):
    return sorted(path.name for path in root.iterdir())


def test_a_source_is_converted_once(root, source):
    """The second call finds what the first made."""
    first = cached_conversion(source, "v1", write("a"))
    assert cached_conversion(source, "v1", fail) == first
    assert (first / "weights").read_text() == "a"
    assert contents(root) == [first.name]


def test_another_content_or_variant_is_another_source(root, source):
    """What could change the result does not find an older one; a copy of the file does."""
    made = {
        cached_conversion(source, "v1", write("a")),
        cached_conversion(source, "v2", write("b")),
    }
    os.utime(source, (1, 1))
    made.add(cached_conversion(source, "v1", write("not made")))
    source.write_bytes(b"CONTENT")
    made.add(cached_conversion(source, "v1", write("c")))
    assert sorted((path / "weights").read_text() for path in made) == ["a", "b", "c"]


def test_a_failed_conversion_leaves_nothing(root, source):
    """After an error the cache is as before, and the next start tries again."""

    def break_off(directory):
        (directory / "weights").write_text("half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cached_conversion(source, "v1", break_off)
    assert contents(root) == []
    assert (cached_conversion(source, "v1", write("a")) / "weights").read_text() == "a"


@pytest.mark.parametrize(
    "damage", ["truncated", "file missing", "manifest missing", "manifest bad"]
)
def test_a_damaged_conversion_is_made_again(root, source, damage):
    """A directory that lost something is replaced, not used."""
    made = cached_conversion(source, "v1", write("whole"))
    if damage == "truncated":
        (made / "weights").write_text("wh")
    elif damage == "file missing":
        (made / "weights").unlink()
    elif damage == "manifest missing":
        (made / "manifest.json").unlink()
    else:
        (made / "manifest.json").write_text("[]")
    assert cached_conversion(source, "v1", write("again")) == made
    assert (made / "weights").read_text() == "again"
    assert contents(root) == [made.name]


def test_concurrent_starts_agree(root, source):
    """Starts at the same moment all get one complete directory."""
    together = threading.Barrier(4, timeout=10)
    results = []

    def convert(directory):
        (directory / "weights").write_text("a")
        together.wait()

    threads = [
        threading.Thread(target=lambda: results.append(cached_conversion(source, "v1", convert)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert results == [results[0]] * 4
    assert contents(root) == [results[0].name]
    assert cached_conversion(source, "v1", fail) == results[0]


def test_abandoned_conversions_are_removed(root, source):
    """What a killed start left goes away after a day, and not before."""
    old, new = root / "x.partial-old", root / "x.partial-new"
    old.mkdir(parents=True)
    new.mkdir()
    yesterday = time.time() - conversion_cache._ABANDONED_AFTER_SECONDS - 60
    os.utime(old, (yesterday, yesterday))
    made = cached_conversion(source, "v1", write("a"))
    assert contents(root) == sorted([made.name, new.name])


def test_a_cache_that_cannot_be_written_is_said(tmp_path, monkeypatch, source):
    """The message names the place and the variable that moves it."""
    (tmp_path / "taken").write_text("a file")
    monkeypatch.setenv("HEADRACE_CACHE_DIR", str(tmp_path / "taken"))
    with pytest.raises(ModelLoadError, match="HEADRACE_CACHE_DIR"):
        cached_conversion(source, "v1", write("a"))


def test_the_cache_lies_where_the_environment_says(tmp_path, monkeypatch, source):
    """HEADRACE_CACHE_DIR, then XDG_CACHE_HOME, then the home directory."""
    monkeypatch.delenv("HEADRACE_CACHE_DIR", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert cached_conversion(source, "v1", write("a")).parent == tmp_path / "home/.cache/headrace"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cached_conversion(source, "v1", write("a")).parent == tmp_path / "xdg/headrace"
    monkeypatch.setenv("HEADRACE_CACHE_DIR", str(tmp_path / "own"))
    assert cached_conversion(source, "v1", write("a")).parent == tmp_path / "own"
