"""The comparison of Headrace with other servers: one model, the same prompts, one load client."""
