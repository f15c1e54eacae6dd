"""Where the open set of captures is: beside the checkout, or where OOP_ENGINE_CAPTURES says; tests do without."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

OPEN_SET = Path(os.environ.get("OOP_ENGINE_CAPTURES", Path(__file__).resolve().parents[2] / "shared/data/captures"))

with_open_set = pytest.mark.skipif(not OPEN_SET.is_dir(), reason=f"the open set of captures is not at {OPEN_SET}")
