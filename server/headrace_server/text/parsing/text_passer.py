"""Passes text on until a marker comes, holding back no more than what may be one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace_server.text.parsing.source import END

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from headrace_server.text.parsing.source import Parse, Source


def pass_text(
    source: Source, add: Callable[[str], None], markers: Sequence[str], *, skip_space: bool
) -> Parse[str]:
    """Pass text on until a marker is complete, but for the white space right before it.

    Args:
        source: where the text comes from.
        add: is given the text.
        markers: none of them begins another.
        skip_space: whether white space at the beginning is dropped.

    Returns:
        The white space before the marker and the marker; empty at the end of the output.
    """
    space: list[str] = []
    partial = ""

    def flush(text: str) -> None:
        nonlocal space, skip_space
        if text or not skip_space:
            add(text if skip_space else "".join(space) + text)
        space = []
        skip_space = skip_space and not text

    while (character := (yield from source.next())) != END:
        longer = partial + character
        if any(marker.startswith(longer) for marker in markers):
            partial = longer
            if partial in markers:
                return "".join(space) + partial
        elif partial:
            source.put_back(longer[1:])
            flush(longer[0])
            partial = ""
        elif character.isspace():
            space.append(character)
        else:
            flush(character)
    flush(partial)
    return ""
