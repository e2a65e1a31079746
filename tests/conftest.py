import os

# As headrace-server does: gRPC reads it when it is imported, and would otherwise stop its
# threads around each start of an engine.
os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"
