"""Anthropic's Messages API: its JSON to the contract and back; pure."""
