"""Write answers.txt anew: what DuckDB gives for each query over the small streams, where it can say it.

    python -m tests.queries.write_answers

The answers of other queries are those of the engine; read what has changed of them before you keep it.
"""

from __future__ import annotations

import duckdb

import oop_engine as oop
from tests.queries.small import duckdb_tables, small_streams, written
from tests.queries.small_answers import ANSWERS, CASES


def main() -> None:
    """Write the file."""
    database = duckdb.connect()
    for name, table in duckdb_tables().items():
        database.register(name, table)
    with ANSWERS.open("w", encoding="utf-8") as out:
        for case in CASES:
            if case.sql is None:
                rows = written(oop.query(case.text, small_streams()).to_arrow())
            else:
                rows = written(database.sql(case.sql).to_arrow_table())
            out.write("".join(f"{line}\n" for line in (case.text, *(f"    {row}" for row in rows))))


if __name__ == "__main__":
    main()
