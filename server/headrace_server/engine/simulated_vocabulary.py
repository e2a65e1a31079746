"""The token ids of the simulated model: the 256 bytes, then `SPECIAL_TOKENS`."""

from __future__ import annotations

# Their ids follow the bytes, in this order.
SPECIAL_TOKENS = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|fault_exit|>",  # the process ends as if it was killed
    "<|fault_hang|>",  # the step never ends
    "<|fault_raise|>",  # the step raises an exception
    "<|fault_nan|>",  # the row has no numbers to choose from
)
VOCABULARY_SIZE = 256 + len(SPECIAL_TOKENS)
END_OF_TEXT, _, _, FAULT_EXIT, FAULT_HANG, FAULT_RAISE, FAULT_NAN = range(256, VOCABULARY_SIZE)
END_OF_TURN = SPECIAL_TOKENS.index("<|im_end|>") + 256
