"""`oop-engine` and `python -m oop_engine` start here."""

from __future__ import annotations


def main() -> None:
    """Run the command line; the exit status says how it went (0, 1 a bug, 2 refused, 3 failed in a run, 130 stopped)."""
    from oop_engine.cli import commands

    commands(prog_name="oop-engine")


if __name__ == "__main__":
    main()
