"""pyarrow brings no types; without this, its functions made at import would be reported as unknown."""

from typing import Any

def __getattr__(name: str) -> Any: ...
