"""The shapes of the OpenAI API; pure."""
