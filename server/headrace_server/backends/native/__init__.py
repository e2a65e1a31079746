"""The own engine, in a process of its own."""

from headrace_server.backends.native.admission import AdmissionLimits
from headrace_server.backends.native.client import NativeBackend
from headrace_server.backends.native.supervisor import EngineLoadError, SupervisionLimits

__all__ = ["AdmissionLimits", "EngineLoadError", "NativeBackend", "SupervisionLimits"]
