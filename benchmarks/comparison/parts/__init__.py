"""What is measured: each part asks a running server and returns measurements."""
