"""Draw the walks of docs/architecture.md as nested lists: a tree needs no script."""

import re

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

NODE = re.compile(r'^(\w+)\[+"(.*?)"\]+$')
EDGE = re.compile(r"^(\w+)(?:\(\[(.*)\]\))? --> (\w+)$")


class Walk(SphinxDirective):
    """A flowchart that is a tree, in the words of mermaid."""

    has_content = True

    def run(self):
        """Return the tree as a list of lists."""
        names, below, root = {}, {}, None
        for line in self.content[1:]:
            if found := NODE.match(line.strip()):
                names[found[1]] = found[2]
            elif found := EDGE.match(line.strip()):
                if found[2]:
                    root, names[found[1]] = root or found[1], found[2]
                below.setdefault(found[1], []).append(found[3])
            else:
                raise self.error(f"no node and no arrow of a walk: {line}")
        return [nodes.container("", self._list(below.pop(root), names, below), classes=["walk"])]

    def _list(self, roots, names, below):
        found = nodes.bullet_list()
        for root in roots:
            item = nodes.list_item("", nodes.paragraph("", "", nodes.literal("", names[root])))
            if inside := below.pop(root, None):  # where a walk comes again, it is not drawn again
                item += self._list(inside, names, below)
            found += item
        return found


def setup(app):
    """Register the directive under the name that code blocks have."""
    app.add_directive("mermaid", Walk)
    return {"parallel_read_safe": True}
