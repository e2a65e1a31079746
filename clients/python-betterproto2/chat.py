"""Sends a prompt to Headrace and prints the answer as it comes."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys

from headrace_client import DEFAULT_TARGET, Headrace, HeadraceError, tls_context, user_prompt


def main() -> int:
    """Run the command and return its exit status."""
    given = _arguments()
    try:
        asyncio.run(_chat(given))
    except HeadraceError as error:
        retry = f"; retry in {error.retry_seconds:.1f} s" if error.retry_seconds else ""
        print(f"error: {error}{retry}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:  # by Ctrl-C, which asyncio turns into a cancellation
        return 130
    return 0


async def _chat(given: argparse.Namespace) -> None:
    tls = None
    if given.tls or given.ca_certs or given.certfile:
        tls = tls_context(given.ca_certs, given.certfile, given.keyfile)
    request = user_prompt(given.prompt, max_tokens=given.max_tokens)
    async with Headrace(given.target, api_key=given.api_key, tls=tls) as client:
        async for response in client.generate(request, timeout=given.timeout):
            for delta in response.deltas:
                print(delta.text, end="", flush=True)
    print()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", default=DEFAULT_TARGET, metavar="HOST:PORT")
    parser.add_argument("--tls", action="store_true", help="trust the system's authorities")
    parser.add_argument("--ca-certs", metavar="FILE", help="trust these, and use TLS")
    parser.add_argument("--certfile", metavar="FILE", help="show this certificate, and use TLS")
    parser.add_argument("--keyfile", metavar="FILE", help="its private key")
    parser.add_argument("--api-key", default=os.environ.get("HEADRACE_API_KEY"), metavar="KEY")
    parser.add_argument("--max-tokens", type=int, metavar="N")
    parser.add_argument("--timeout", type=float, metavar="SECONDS")
    parser.add_argument("prompt")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
