"""The Headrace server: a gRPC front and its engine process."""
