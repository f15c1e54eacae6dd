"""What is computed under promises: pages, schemas, operators, windows, and the laws that hold them to account."""

from operators.moved import install

install()
