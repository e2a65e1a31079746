"""gRPC and protobuf: services, validation and the table of errors."""
