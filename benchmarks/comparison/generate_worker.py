"""Runs `transformers` generate in fp32, one request at a time, as a script would.

Started by `generate.py` with the model's directory; reads one JSON request a line from stdin and
answers with one line: the times of its tokens.
"""

from __future__ import annotations

import json
import sys
import time

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.generation.streamers import BaseStreamer


class TokenTimes(BaseStreamer):  # type: ignore[misc]  # transformers has no types
    """Notes when each token came."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def put(self, value: torch.Tensor) -> None:
        """Take the prompt, then each token."""
        self.seconds.append(time.perf_counter())

    def end(self) -> None:
        """Nothing follows."""


def main() -> None:
    """Answer until stdin ends."""
    directory = sys.argv[1]
    tokenizer = AutoTokenizer.from_pretrained(directory)
    model = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32).eval()
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        times = TokenTimes()
        begin = time.perf_counter()
        inputs = tokenizer(request["prompt"], return_tensors="pt")
        output = model.generate(
            **inputs,
            do_sample=False,
            temperature=None,
            top_p=None,
            min_new_tokens=request["num_output_tokens"],
            max_new_tokens=request["num_output_tokens"],
            streamer=times,
        )
        num_prompt_tokens = inputs["input_ids"].shape[1]
        answer = {
            "begin_seconds": begin,
            "piece_seconds": times.seconds[1:],  # the first is the prompt
            "end_seconds": time.perf_counter(),
            "num_prompt_tokens": num_prompt_tokens,
            "num_output_tokens": output.shape[1] - num_prompt_tokens,
        }
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
