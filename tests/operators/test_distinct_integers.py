"""Distinct integers are those that NumPy finds, in order."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from operators.data.distinct import distinct


@pytest.mark.parametrize(
    "values",
    [
        np.empty(0, np.int64), np.array([7]), np.array([3, 1, 3, -2]), np.full(9, 4, np.int32), np.arange(50)[::-1],
        np.array([2**64 - 1, 0, 2**63], np.uint64), np.array([[2, 1], [1, 5]]),
    ],
)  # fmt: skip
def test_they_are_those_of_numpy(values: npt.NDArray[np.integer]) -> None:
    before = values.copy()
    found = distinct(values)
    assert found.dtype == values.dtype and found.tolist() == np.unique(values).tolist()
    assert np.array_equal(values, before), "what is given is not changed"
