"""``python -m tests.documents --write``: write tables and figures into documents."""

import sys

from tests.documents.figures import PAGES, marked
from tests.documents.tables import TABLES, written

if __name__ == "__main__":
    for (path, name), table in TABLES.items():
        if "--write" in sys.argv:
            path.write_text(written(path.read_text("utf-8"), name, table()), "utf-8")
        else:
            print(table())
    for page in PAGES if "--write" in sys.argv else ():
        page.write_text(marked(page.read_text("utf-8")), "utf-8")
