"""Text to tokens and back; knows neither gRPC nor torch."""
