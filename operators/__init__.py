"""Operators under promises: pages, schemas, operators, windows, and the laws that `check_operator` tests."""

from operators.moved import install

install()
