"""The HTTP gateway: OpenAI-style JSON and SSE in front of the gRPC contract."""
