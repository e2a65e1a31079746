"""The engine process: schedule, run, commit. No asyncio, no gRPC, no torch."""
