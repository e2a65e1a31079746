"""Opens a GGUF file and reads its metadata into Python values of known types."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from headrace_server.engine.model_runner import ModelLoadError

if TYPE_CHECKING:
    from pathlib import Path

    from gguf import GGUFReader

T = TypeVar("T")


class GgufMetadata:
    """The key-value pairs of a GGUF file.

    Args:
        path: for messages.
        reader: the open file.
    """

    def __init__(self, path: Path, reader: GGUFReader) -> None:
        self._path = path
        self._reader = reader

    def find(self, key: str, kind: type[T]) -> T | None:
        """Return a value, or None where the file has none.

        Raises:
            ModelLoadError: the value is of another type.
        """
        field = self._reader.fields.get(key)
        if field is None:
            return None
        value: Any = field.contents()
        if kind is float and isinstance(value, int):
            value = float(value)
        if not isinstance(value, kind):
            raise ModelLoadError(f"{self._path} has an unusable {key!r}; convert the model again.")
        return value

    def get(self, key: str, kind: type[T]) -> T:
        """Return a value that the file must have.

        Raises:
            ModelLoadError: it is missing or of another type.
        """
        value = self.find(key, kind)
        if value is None:
            raise ModelLoadError(f"{self._path} lacks {key!r}; convert the model again.")
        return value


def open_gguf(path: Path) -> GGUFReader:
    """Open a GGUF file.

    Raises:
        ModelLoadError: it is not one, truncated, or one part of several.
    """
    # Imported here because only a conversion needs it.
    from gguf import GGUFReader

    try:
        reader = GGUFReader(path)
    except OSError as error:
        raise ModelLoadError(f"{path} cannot be read: {error.strerror}.") from error
    # What the reader runs into when it reads past the end or takes weights for text.
    except (ValueError, IndexError, KeyError, OverflowError, MemoryError, TypeError) as error:
        raise ModelLoadError(
            f"{path} is not a GGUF file, or is truncated; download it again."
        ) from error
    num_parts = GgufMetadata(path, reader).find("split.count", int) or 1
    if num_parts > 1:
        raise ModelLoadError(
            f"{path} is one of {num_parts} parts; join them with `llama-gguf-split --merge`."
        )
    return reader
