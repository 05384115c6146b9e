"""``make costs``: count the hot paths, record what they cost, print what changed."""

from __future__ import annotations

import sys

from tests.cost.costs import COUNTERS, find_tool_obstacle, measure, read_record, write_record

__all__ = ("main",)


def main() -> int:
    """Record; the exit status."""
    for counter in COUNTERS:
        if obstacle := find_tool_obstacle(counter):
            print(f"nothing is recorded: {obstacle}", file=sys.stderr)
            return 1
    costs = {counter: measure(counter)[0] for counter in COUNTERS}
    before = read_record()
    for counter in COUNTERS:
        print(f"{counter:62}{'before':>12}{'now':>12}")
        for name, now in costs[counter].items():
            was = before[counter].get(name)
            change = f"{now / was - 1:+8.1%}" if was else "     new"
            print(f"  {name:60}{was or '-':>12}{now:>12}{change}")
    write_record(costs)
    return 0


if __name__ == "__main__":
    sys.exit(main())
