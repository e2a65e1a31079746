"""A server that streams completions, one token for each word: ``PORT [MOST_PROMPT_TOKENS]``.

Longer prompts are refused.
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Handler(BaseHTTPRequestHandler):
    """Health and /v1/completions; the answer ends with the connection."""

    def do_GET(self):
        self.send_response(200)
        self.end_headers()

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        num_prompt_tokens = len(body["prompt"].split())
        if num_prompt_tokens > self.server.most_prompt_tokens:
            self.send_response(503)
            self.end_headers()
            self.wfile.write(b"prompt\n too long\n")
            return
        self.send_response(200)
        self.end_headers()
        for _ in range(body["max_tokens"]):
            self.send_event({"choices": [{"text": " word"}]})
        usage = {"prompt_tokens": num_prompt_tokens, "completion_tokens": body["max_tokens"]}
        self.send_event({"choices": [], "usage": usage})

    def send_event(self, event):
        self.wfile.write(f"data: {json.dumps(event)}\n\n".encode())

    def log_message(self, *_):
        """Say nothing."""


if __name__ == "__main__":
    with ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler) as server:
        server.most_prompt_tokens = int(sys.argv[2]) if len(sys.argv) > 2 else 10_000
        server.serve_forever()
