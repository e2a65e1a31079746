"""Rewrites a quantised GGUF file with fp16 weights of the same values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from gguf import GGMLQuantizationType, GGUFReader, GGUFValueType, GGUFWriter, LlamaFileType
from gguf.quants import dequantize

if TYPE_CHECKING:
    from pathlib import Path

_FILE_TYPE: Final = "general.file_type"
_OWN_FIELDS: Final = ("GGUF.", "general.architecture", _FILE_TYPE)  # the writer adds these
_KEPT: Final = (GGMLQuantizationType.F32, GGMLQuantizationType.F16)


def write_f16(source: Path, target: Path) -> None:
    """Copy a GGUF file; what was quantised becomes fp16, what was not stays as it is."""
    reader = GGUFReader(source)
    writer = GGUFWriter(target, reader.get_field("general.architecture").contents())
    writer.add_file_type(LlamaFileType.MOSTLY_F16)
    for name, field in reader.fields.items():
        if name.startswith(_OWN_FIELDS):
            continue
        is_list = field.types[0] == GGUFValueType.ARRAY
        writer.add_key_value(
            name, field.contents(), field.types[0], field.types[-1] if is_list else None
        )
    for tensor in reader.tensors:
        values = tensor.data
        if tensor.tensor_type not in _KEPT:
            values = dequantize(values, tensor.tensor_type).astype(np.float16)
        writer.add_tensor(tensor.name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def weight_type(path: Path) -> str:
    """The type of most weights of a GGUF file, such as Q4_1."""
    sizes: dict[str, int] = {}
    for tensor in GGUFReader(path).tensors:
        name = tensor.tensor_type.name
        sizes[name] = sizes.get(name, 0) + int(tensor.n_elements)
    return max(sizes, key=lambda name: sizes[name])
