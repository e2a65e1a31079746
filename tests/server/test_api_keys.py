"""Whose a key is, and the file of keys, which changes while the program runs."""

import hashlib
import logging
import os

import pytest

from headrace_server.api_keys import (
    ApiKeyError,
    ApiKeys,
    read_api_key_file,
    read_bearer,
    to_api_key,
)


class Clock:
    """Time that passes when the test says so."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def file(tmp_path):
    return tmp_path / "keys.txt"


@pytest.fixture
def clock():
    return Clock()


def sha256(key):
    return hashlib.sha256(key.encode()).hexdigest()


def replace(file, text):
    """Write a file as careful programs do: under another name, then in one move."""
    other = file.with_suffix(".new")
    other.write_text(text)
    other.rename(file)


def test_a_key_belongs_to_the_name_before_it(file):
    """In clear or by its digest, in whatever case that is written."""
    file.write_text(
        f"# callers\n\n  alice  a-1\nbob sha256:{sha256('b-1')}\n"
        f"carol sha256:{sha256('c').upper()}\n"
    )
    keys = ApiKeys((), file)
    assert {key: keys.find(key) for key in ["a-1", "b-1", "c", "d", "a", "a-11", "A-1"]} == {
        "a-1": "alice",
        "b-1": "bob",
        "c": "carol",
        **dict.fromkeys(["d", "a", "a-11", "A-1"]),
    }


@pytest.mark.parametrize("prefix", ["sha256:", "SHA256:"])
def test_a_digest_is_never_taken_for_a_key(file, prefix):
    """Else whoever reads a file, or a command line, that has digests would have keys."""
    file.write_text(f"bob {prefix}{sha256('b-1')}\n")
    keys = ApiKeys((), file)
    assert keys.find("b-1") == "bob"
    assert keys.find(f"{prefix}{sha256('b-1')}") is None
    with pytest.raises(ApiKeyError, match=r"^the SHA-256 of a key stands in a file only"):
        to_api_key(f"{prefix}{sha256('b-1')}")


def test_a_file_may_be_one_of_windows(file):
    """It begins with a mark of bytes, and its lines end with two characters."""
    file.write_bytes(b"\xef\xbb\xbfalice one\r\nbob two\r\n")
    keys = ApiKeys((), file)
    assert [keys.find("one"), keys.find("two")] == ["alice", "bob"]


def test_a_digest_is_no_key(file):
    """Who reads the file of digests has no key yet."""
    file.write_text(f"bob sha256:{sha256('b-1')}\n")
    keys = ApiKeys((), file)
    assert keys.find(sha256("b-1")) is None
    assert keys.find("sha256:" + sha256("b-1")) is None


def test_a_name_may_have_several_keys(file):
    """So that a caller has time to go from an old key to a new one."""
    file.write_text("alice old\nalice new\n")
    keys = ApiKeys((), file)
    assert [keys.find("old"), keys.find("new")] == ["alice", "alice"]


def test_a_key_without_a_name_is_named_after_its_digest():
    """Such names differ, tell nothing of the key, and are the same after each start."""
    keys = ApiKeys([to_api_key("one"), to_api_key("two")])
    assert keys.find("one") == f"key-{sha256('one')[:8]}"
    assert keys.find("two") == f"key-{sha256('two')[:8]}"
    assert keys.find("three") is None


def test_the_file_names_a_key_that_is_given_otherwise_too(file):
    """The name that a person chose wins."""
    file.write_text("alice one\n")
    assert ApiKeys([to_api_key("one")], file).find("one") == "alice"


@pytest.mark.parametrize(
    "key", [None, "", " ", "a b", "a,b", "ä", "\ud800", "a\n", "\x00", "x" * 513, "x" * 1_000_000]
)
def test_what_cannot_be_a_key_is_nobodys(key):
    """Whatever a caller sends, the answer is no."""
    assert ApiKeys([to_api_key("one")]).find(key) is None


@pytest.mark.parametrize("key", ["!", "~", "x" * 512, "sk-A+/=_.~", "sha256:x"])
def test_whatever_a_header_carries_may_be_a_key(key):
    """But spaces and commas, which end keys elsewhere."""
    assert ApiKeys([to_api_key(key)]).find(key) is not None


@pytest.mark.parametrize("key", ["", "a b", "a,b", "schlüssel", "x" * 513])
def test_a_bad_key_is_refused_without_being_told(key):
    """Errors go to logs and terminals."""
    with pytest.raises(ApiKeyError) as caught:
        to_api_key(key)
    assert str(caught.value) == (
        "a key must have 1 to 512 visible characters in ASCII, and no comma"
    )


def test_nothing_shows_a_key_nor_its_digest():
    """What is printed by mistake is no loss."""
    shown = repr(to_api_key("secret"))
    assert "secret" not in shown
    assert sha256("secret")[:16] not in shown


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", " has no keys; add lines such as: alice KEY"),
        ("# alice one\n", " has no keys; add lines such as: alice KEY"),
        ("a one\nSECRET\n", ", line 2: there must be a name and a key, such as: alice KEY"),
        ("a SECRET more\n", ", line 1: there must be a name and a key, such as: alice KEY"),
        (
            "a SECRET,\n",
            ", line 1: a key must have 1 to 512 visible characters in ASCII, and no comma",
        ),
        ("a\u00e4 SECRET\n", ", line 1: a name must have 1 to 128 visible characters in ASCII"),
        (
            f"{'a' * 129} SECRET\n",
            ", line 1: a name must have 1 to 128 visible characters in ASCII",
        ),
        (
            "a sha256:SECRET\n",
            ", line 1: there must be 64 hexadecimal digits behind sha256:",
        ),
        (
            "a SECRET\n\nb SECRET\n",
            ", line 3: another line has this key, too; give each its own",
        ),
        ("#" * (1024 * 1024 + 1), " is over 1 MiB, which no file of keys is"),
    ],
)
def test_a_bad_file_is_refused_by_its_line(file, text, message):
    """And without the key that is in it."""
    file.write_text(text)
    with pytest.raises(ApiKeyError) as caught:
        read_api_key_file(file)
    assert str(caught.value) == f"{file}{message}"


def test_a_file_that_is_not_there_is_refused(file):
    """By what the system says of it."""
    with pytest.raises(ApiKeyError) as caught:
        ApiKeys((), file)
    assert str(caught.value) == f"{file} cannot be read: No such file or directory"


def test_a_file_of_any_bytes_is_refused(file):
    """A key that is given by mistake for the file of keys, for instance."""
    file.write_bytes(bytes(range(256)))
    with pytest.raises(ApiKeyError):
        read_api_key_file(file)


def test_a_changed_file_is_read_again(file, clock, caplog):
    """A key that is gone from it is invalid; one that is new is valid."""
    caplog.set_level(logging.INFO)
    file.write_text("alice one\n")
    keys = ApiKeys([to_api_key("own")], file, clock)
    replace(file, "bob two\n")
    assert keys.find("two") is None
    clock.now += 1.0
    assert [keys.find(key) for key in ["one", "two"]] == [None, "bob"]
    assert keys.find("own") is not None
    assert [record.message for record in caplog.records] == ["keys read again"]


def test_a_file_is_looked_at_once_a_second(file, clock):
    """However many ask."""
    file.write_text("alice one\n")
    keys = ApiKeys((), file, clock)
    replace(file, "bob two\n")
    clock.now += 0.9
    assert keys.find("two") is None
    clock.now += 0.1
    assert keys.find("two") == "bob"
    replace(file, "carol three\n")
    clock.now += 0.9
    assert keys.find("three") is None


def test_a_change_in_place_is_seen_though_the_size_is_the_same(file, clock):
    """The time of the change differs."""
    file.write_text("alice one\n")
    os.utime(file, ns=(1, 1))
    keys = ApiKeys((), file, clock)
    file.write_text("alice two\n")
    clock.now += 1.0
    assert keys.find("two") == "alice"


@pytest.mark.parametrize("bad", ["alice\n", "", None])
def test_a_bad_file_keeps_the_old_keys_and_is_told_once(file, clock, caplog, bad):
    """Half a file locks nobody out, and a missing one lets nobody in."""
    file.write_text("alice one\n")
    keys = ApiKeys((), file, clock)
    if bad is None:
        file.unlink()
    else:
        replace(file, bad)
    for _ in range(3):
        clock.now += 1.0
        assert keys.find("one") == "alice"
    assert [(record.levelname, record.message) for record in caplog.records] == [
        ("ERROR", "bad file of keys, the old keys stay valid")
    ]
    assert str(file) in caplog.records[0].fields["cause"]
    replace(file, "bob two\n")
    clock.now += 1.0
    assert [keys.find(key) for key in ["one", "two"]] == [None, "bob"]


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir], ids=["pipe", "directory"])
def test_what_is_no_file_is_an_error_and_nobody_waits_for_it(file, clock, caplog, make):
    """A pipe without a writer would stop all callers."""
    file.write_text("alice one\n")
    keys = ApiKeys((), file, clock)
    file.unlink()
    make(file)
    clock.now += 1.0
    assert keys.find("one") == "alice"
    [record] = caplog.records
    assert record.fields["cause"] == f"{file} is no regular file, which keys must be in"


def test_a_copy_with_the_old_time_and_size_is_read(file, clock):
    """As `cp --preserve` makes it, in place; and a file that was given the rights to be read."""
    file.write_text("alice one\n")
    status = file.stat()
    keys = ApiKeys((), file, clock)
    file.write_text("alice two\n")
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    clock.now += 1.0
    assert [keys.find(key) for key in ["one", "two"]] == [None, "alice"]


@pytest.mark.parametrize(
    ("header", "key"),
    [
        ("Bearer one", "one"),
        ("bearer one", "one"),
        ("BEARER   one  ", "one"),
        ("Bearer", ""),
        ("Bearer ", ""),
        ("Basic one", None),
        ("one", None),
        ("", None),
        ("Bearerone", None),
        ("Bearer a b", "a b"),
    ],
)
def test_a_header_has_a_key_behind_bearer(header, key):
    """The name of the scheme is of any case: RFC 9110."""
    assert read_bearer(header) == key
