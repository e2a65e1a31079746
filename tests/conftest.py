import os
import signal

from hypothesis import HealthCheck, settings

# As headrace-server does: gRPC reads it when it is imported, and would otherwise stop its
# threads around each start of an engine.
os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"

# What this machine sets for Headrace must not reach the programs under test; where it keeps
# converted models may.
for _name in [name for name in os.environ if name.startswith("HEADRACE_")]:
    if _name != "HEADRACE_CACHE_DIR":
        del os.environ[_name]

# The same examples in each run and on each machine, however slow that is.
settings.register_profile(
    "headrace",
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("headrace")

# A shell starts its background jobs with Ctrl-C ignored, which their programs would inherit.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
