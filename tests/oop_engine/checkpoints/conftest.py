"""What tests of checkpoints read."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.oop_engine.checkpoints.scenarios import data


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a folder with what the scenarios read."""
    folder = tmp_path_factory.mktemp("files")
    data(folder)
    return folder
