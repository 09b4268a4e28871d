"""``python -m tests.architecture [--write]``: print the walks, or draw them into the page."""

import sys
from pathlib import Path

from tests.architecture.walk import JOBS, drawn, numbers, trace

PAGE = Path(__file__).parents[2] / "docs" / "architecture.md"

if __name__ == "__main__":
    walks = {name: trace(job) for name, job in JOBS.items()}
    if "--write" in sys.argv:
        PAGE.write_text(drawn(PAGE.read_text("utf-8"), walks), "utf-8")
    for name, walk in walks.items():
        print(f"{name}: {numbers(walk)}")
        for file in walk.floor:
            print(f"  {file:34} from {walk.entered[file] or 'the caller'}")
        for file, callers in walk.returns.items():
            print(f"  returns to {file}, from {', '.join(sorted(callers))}")
