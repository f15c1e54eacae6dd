"""Profiles of all property tests; none has a deadline, as first calls compile.

By default there are few examples, always the same. HYPOTHESIS_PROFILE=random tries 50 new ones, as CI does (12, "few",
in longer tests), and thorough 1,000. One that fails is printed with the line (`@reproduce_failure`) that repeats it.

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
settings.register_profile(
    "random", settings.get_profile("default"), derandomize=False, print_blob=True, max_examples=50
)
settings.register_profile("few", settings.get_profile("random"), max_examples=12)
settings.register_profile("thorough", settings.get_profile("random"), max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))
