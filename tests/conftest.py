"""One profile for all property tests: fixed seeds, no deadline (first calls compile), toy-sized example counts.

Every Java that a test starts, by whatever process, is one that starts fast.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

# A Java that runs a minute compiles for longer than it gains by it; no answer depends on these.
BRIEF = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
for name in ("SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS"):
    os.environ.setdefault(name, BRIEF)

settings.register_profile(
    "default",
    deadline=None,
    derandomize=True,
    max_examples=8,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.register_profile("thorough", settings.get_profile("default"), derandomize=False, max_examples=1000)
settings.register_profile("long", settings.get_profile("default"), max_examples=12)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))
