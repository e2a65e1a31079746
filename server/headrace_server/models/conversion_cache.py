"""The cache of converted models: one directory for each source, complete or absent."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from safetensors import SafetensorError

from headrace_server.engine.model_runner import ModelLoadError
from headrace_server.models.cache_root import cache_root

if TYPE_CHECKING:
    from collections.abc import Callable

_MANIFEST = "manifest.json"  # written last; names every file with its size
_PARTIAL = ".partial-"
_ABANDONED_AFTER_SECONDS = 24 * 3600.0
_NUM_SAMPLES = 65
_SAMPLE_BYTES = 64 << 10


def cached_conversion(source: Path, variant: str, convert: Callable[[Path], None]) -> Path:
    """Return the directory that `convert` makes of a source file, made at most once.

    The directory appears under its name only when it is complete. Several processes
    may start at once: each makes its own and the first to finish is used by all.

    Args:
        source: the file; a changed file is another source.
        variant: whatever else the result depends on.
        convert: fills an empty directory.

    Raises:
        ModelLoadError: the source cannot be read or the cache not be written to.
    """
    root = cache_root()
    try:
        target = root / f"{source.stem}-{_fingerprint(source, variant)}"
        if _is_complete(target):
            return target
        root.mkdir(parents=True, exist_ok=True)
        _remove_abandoned(root)
        partial = Path(tempfile.mkdtemp(prefix=f"{target.name}{_PARTIAL}", dir=root))
        try:
            convert(partial)
            _write_manifest(partial)
            _publish(partial, target)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    except (OSError, SafetensorError) as error:
        raise ModelLoadError(
            f"{source} could not be converted into {root}: {error}; "
            "HEADRACE_CACHE_DIR names another place."
        ) from error
    return target


def _fingerprint(source: Path, variant: str) -> str:
    """Digest samples that tell one content from another without reading gigabytes.

    Only the content counts, so that a copy of the file in another place is the same source.
    """
    size = source.stat().st_size
    digest = hashlib.sha256(f"{variant}\n{size}\n".encode())
    with source.open("rb") as file:
        for index in range(_NUM_SAMPLES):
            file.seek(max(size - _SAMPLE_BYTES, 0) * index // (_NUM_SAMPLES - 1))
            digest.update(file.read(_SAMPLE_BYTES))
    return digest.hexdigest()[:16]


def _is_complete(directory: Path) -> bool:
    try:
        sizes = json.loads((directory / _MANIFEST).read_bytes())
        return all((directory / name).stat().st_size == size for name, size in sizes.items())
    except (OSError, ValueError, AttributeError):
        return False


def _write_manifest(directory: Path) -> None:
    sizes = {}
    for path in sorted(directory.iterdir()):
        with path.open("rb") as file:
            os.fsync(file.fileno())  # the rename must not survive a crash that the content does not
        sizes[path.name] = path.stat().st_size
    (directory / _MANIFEST).write_text(json.dumps(sizes, indent=2))


def _publish(partial: Path, target: Path) -> None:
    """Give a finished directory its name, unless another process was first."""
    if _take_name(partial, target):
        return
    # A damaged one has the name. It is moved aside at once, for removing it takes time.
    aside = tempfile.mkdtemp(prefix=f"{target.name}{_PARTIAL}", dir=target.parent)
    with contextlib.suppress(FileNotFoundError):  # another process was faster
        target.rename(aside)
    shutil.rmtree(aside, ignore_errors=True)
    if not _take_name(partial, target):
        raise FileExistsError(f"{target} cannot be replaced")


def _take_name(partial: Path, target: Path) -> bool:
    """Rename, and say whether a complete directory has the name now, this one or another's."""
    try:
        partial.rename(target)  # it fails where a directory with content has the name
    except OSError:
        return _is_complete(target)
    return True


def _remove_abandoned(root: Path) -> None:
    """Remove what killed conversions left."""
    for path in root.glob(f"*{_PARTIAL}*"):
        with contextlib.suppress(FileNotFoundError):  # another process was faster
            if time.time() - path.stat().st_mtime > _ABANDONED_AFTER_SECONDS:
                shutil.rmtree(path, ignore_errors=True)
