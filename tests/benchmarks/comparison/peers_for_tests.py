"""Peers and options that start nothing."""

from comparison.options import read_options
from comparison.peer import Launch, Peer


def make_peer(name="rival", *, flags=None, is_sized=False):
    """A peer; one that is sized is started differently for each load."""

    def launch(sizing, ports):
        room = (str(sizing.num_streams), str(sizing.context_tokens)) if is_sized else ()
        return Launch((("serve", name, str(ports.http), *room),), ready_path="/health")

    return Peer(name, "1.0", "fp32", {}, launch, flags)


def make_options(*arguments):
    """Options as from a command line."""
    return read_options(list(arguments))
