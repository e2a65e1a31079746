"""The keys of callers: whose each is, by its SHA-256 alone, and the file that has them."""

from __future__ import annotations

import codecs
import hashlib
import hmac
import logging
import os
import re
import stat
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

# What a header can carry as it is, and a list with commas too.
_KEY: Final = re.compile(r"[!-+\--~]{1,512}")
_NAME: Final = re.compile(r"[!-~]{1,128}")
_DIGEST: Final = re.compile(r"(?i:sha256):([0-9a-fA-F]{64})")
# Thousands of keys fit; a file that is larger is another one, given by mistake.
_MAX_FILE_BYTES: Final = 1024 * 1024
_LOOK_SECONDS: Final = 1.0

# What changes when a file is written or replaced, or may be read at last; None where there is none.
_Signature: TypeAlias = "tuple[int, int, int, int] | None"

_log = logging.getLogger(__name__)


class ApiKeyError(Exception):
    """A key or the file of keys cannot be used: words that say why, and never quote a key."""


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key as it is kept.

    Args:
        name: whose it is; several keys may be of one name.
        digest: the SHA-256 of the key.
    """

    name: str
    digest: bytes = field(repr=False)


def to_api_key(text: str) -> ApiKey:
    """Keep a key that has no name of its own; it is named after its digest.

    Raises:
        ApiKeyError: it could not be sent as one, or is the digest of one.
    """
    if _DIGEST.fullmatch(text) is not None:
        raise ApiKeyError("the SHA-256 of a key stands in a file only; give the key itself")
    digest = _digest(text)
    return ApiKey(f"key-{digest.hex()[:8]}", digest)


def read_api_key_file(path: Path) -> tuple[ApiKey, ...]:
    """Read the keys of a file, at least one.

    Its lines are ``name KEY`` or ``name sha256:HEX``, blank, or begin with #.

    Raises:
        ApiKeyError: the file cannot be read, or a line is none of these.
    """
    content = _read(path)
    keys: dict[bytes, ApiKey] = {}
    for number, line in enumerate(content.decode("ascii", "replace").splitlines(), start=1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        try:
            key = _read_line(words)
            if key.digest in keys:
                raise ApiKeyError("another line has this key, too; give each its own")
        except ApiKeyError as error:
            raise ApiKeyError(f"{path}, line {number}: {error}") from None
        keys[key.digest] = key
    if not keys:
        raise ApiKeyError(f"{path} has no keys; add lines such as: alice KEY")
    return tuple(keys.values())


def read_bearer(header: str) -> str | None:
    """Take the key out of the value of an ``Authorization`` header; None where it has none."""
    scheme, _, key = header.strip(" ").partition(" ")
    return key.strip(" ") if scheme.lower() == "bearer" else None


class ApiKeys:
    """The keys that are valid now; the file is looked at again as keys are asked about.

    Args:
        keys: those that stay.
        file: more of them, None for none. A bad file keeps the keys of the last good one.
        clock: in seconds.

    Raises:
        ApiKeyError: see `read_api_key_file`.
    """

    def __init__(
        self,
        keys: Iterable[ApiKey],
        file: Path | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._own_keys = tuple(keys)
        self._file = file
        self._clock = clock
        self._look_time = clock()
        # The signature comes first: what is written in the meantime is seen at the next look.
        self._signature = None if file is None else _signature(file)
        self._file_keys = () if file is None else read_api_key_file(file)

    def find(self, key: str | None) -> str | None:
        """Return whose key this is; None where it is nobody's. It takes as long for any key."""
        if self._file is not None:
            self._look_at(self._file)
        try:
            digest = _digest(key or "")
        except ApiKeyError:
            return None
        name = None
        for known in (*self._file_keys, *self._own_keys):
            if hmac.compare_digest(known.digest, digest) and name is None:
                name = known.name
        return name

    def _look_at(self, file: Path) -> None:
        now = self._clock()
        if now < self._look_time + _LOOK_SECONDS:
            return
        self._look_time = now
        signature = _signature(file)
        if signature == self._signature:
            return
        self._signature = signature
        try:
            self._file_keys = read_api_key_file(file)
        except ApiKeyError as error:
            _tell(logging.ERROR, "bad file of keys, the old keys stay valid", cause=str(error))
        else:
            _tell(logging.INFO, "keys read again", path=str(file), keys=len(self._file_keys))


def _read(path: Path) -> bytes:
    try:
        # Without waiting: a pipe has no end before its writer comes, and nobody would be served.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise ApiKeyError(f"{path} is no regular file, which keys must be in")
            content = os.read(descriptor, _MAX_FILE_BYTES + 1)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise ApiKeyError(f"{path} cannot be read: {error.strerror}") from error
    if len(content) > _MAX_FILE_BYTES:
        raise ApiKeyError(f"{path} is over 1 MiB, which no file of keys is")
    return content.removeprefix(codecs.BOM_UTF8)  # as some editors write it


def _read_line(words: list[str]) -> ApiKey:
    if len(words) != 2:
        raise ApiKeyError("there must be a name and a key, such as: alice KEY")
    name, key = words
    if _NAME.fullmatch(name) is None:
        raise ApiKeyError("a name must have 1 to 128 visible characters in ASCII")
    if not key.lower().startswith("sha256:"):
        return ApiKey(name, _digest(key))
    match = _DIGEST.fullmatch(key)
    if match is None:
        raise ApiKeyError("there must be 64 hexadecimal digits behind sha256:")
    return ApiKey(name, bytes.fromhex(match[1]))


def _digest(key: str) -> bytes:
    if _KEY.fullmatch(key) is None:
        raise ApiKeyError("a key must have 1 to 512 visible characters in ASCII, and no comma")
    return hashlib.sha256(key.encode("ascii")).digest()


def _tell(level: int, event: str, **fields: str | int) -> None:
    _log.log(level, event, extra={"fields": fields})


def _signature(file: Path) -> _Signature:
    try:
        status = file.stat()
    except OSError:
        return None
    # The third changes with the rights to read, too, after which a file is worth another look.
    return (status.st_mtime_ns, status.st_size, status.st_ctime_ns, status.st_ino)
