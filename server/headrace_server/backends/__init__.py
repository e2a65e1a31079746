"""What the front submits tokens to."""
