"""The shapes of OpenAI's Responses API; pure."""
