"""The safetensors files of a model directory, mapped into memory and read by tensor name."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError, safe_open

from headrace_server.engine.model_runner import ModelLoadError
from headrace_server.models.quantization import GROUP_SIZE, GroupedWeights

if TYPE_CHECKING:
    import torch

BLOCKS_SUFFIX = ".blocks"
"""Ends the names of safetensors files with the quantized blocks that the weights were made from;
other programs load every file of a directory whose name ends in .safetensors.
"""

_INDEX = "model.safetensors.index.json"
_PICKLED = ("*.bin", "*.pt", "*.pth", "*.ckpt")


class Checkpoint:
    """Named tensors of a model directory.

    Raises:
        ModelLoadError: there are no safetensors files, or one is broken or missing.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._files: dict[str, Any] = {}
        for path in _weight_files(directory):
            file = _open(path)
            self._files.update(dict.fromkeys(file.keys(), file))
        self._blocks: dict[str, Any] = {}
        for path in sorted(directory.glob(f"*{BLOCKS_SUFFIX}")):
            file = _open(path)
            self._blocks.update(dict.fromkeys(file.keys(), file))

    def __contains__(self, name: str) -> bool:
        return name in self._files

    def count_elements(self) -> int:
        """Return how many numbers all tensors hold."""
        shapes = (file.get_slice(name).get_shape() for name, file in self._files.items())
        return sum(math.prod(shape) for shape in shapes)

    def read(self, name: str, shape: tuple[int, ...]) -> torch.Tensor:
        """Return a tensor whose memory is the mapped file; do not write to it."""
        if name not in self._files:
            raise ModelLoadError(
                f"The weights in {self._directory} lack {name!r}; the download is incomplete."
            )
        tensor: torch.Tensor = self._files[name].get_tensor(name)
        if tuple(tensor.shape) != shape or not tensor.is_floating_point():
            raise ModelLoadError(
                f"The weight {name!r} is {_describe(tensor)} where config.json asks for floating "
                f"point {list(shape)}; config.json and the weights belong to different models."
            )
        return tensor

    def read_blocks(self, name: str, shape: tuple[int, ...]) -> GroupedWeights | None:
        """Return the quantized blocks that a weight was made from; None where there are none.

        Their memory is the mapped file too.

        Raises:
            ModelLoadError: they are not those of a weight of this shape.
        """
        numbers, scales, offsets = (
            self._read_part(f"{name}.{part}") for part in ("numbers", "scales", "offsets")
        )
        if numbers is None or scales is None:
            return None
        shared = (shape[0], shape[1] // GROUP_SIZE)
        for part, expected in ((numbers, shape), (scales, shared), (offsets, shared)):
            if part is not None and tuple(part.shape) != expected:
                raise ModelLoadError(
                    f"The blocks of the weight {name!r} have a part {_describe(part)} where "
                    f"config.json asks for {list(expected)}; remove the files *{BLOCKS_SUFFIX} "
                    f"from {self._directory}."
                )
        return GroupedWeights(numbers, scales, offsets)

    def _read_part(self, name: str) -> torch.Tensor | None:
        file = self._blocks.get(name)
        return None if file is None else file.get_tensor(name)


def _open(path: Path) -> Any:
    try:
        return safe_open(path, framework="pt", device="cpu")
    except FileNotFoundError:
        raise ModelLoadError(
            f"{path} is missing; the download of the model is incomplete."
        ) from None
    except (SafetensorError, OSError) as error:
        raise ModelLoadError(
            f"{path} is broken or truncated ({error}); download it again."
        ) from error


def _weight_files(directory: Path) -> list[Path]:
    index = directory / _INDEX
    if index.exists():
        try:
            names = set(json.loads(index.read_bytes())["weight_map"].values())
            # The name alone: an index must not lead out of the directory.
            return [directory / Path(name).name for name in sorted(names)]
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise ModelLoadError(f"{index} is broken; download it again.") from error
    paths = sorted(directory.glob("model*.safetensors"))
    if paths:
        return paths
    if any(path for pattern in _PICKLED for path in directory.glob(pattern)):
        raise ModelLoadError(
            f"{directory} has pickled weights only, which can run code when read; convert them to "
            "safetensors (save_pretrained of transformers writes them)."
        )
    raise ModelLoadError(f"{directory} has no weights: no model.safetensors and no {_INDEX}.")


def _describe(tensor: torch.Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)}"
