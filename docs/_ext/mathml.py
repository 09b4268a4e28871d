"""Formulas as MathML, which browsers draw by themselves: no script, no fonts from elsewhere."""

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml

SPELLED = {r"\dots": r"\ldots", r"\tfrac": r"\frac", r"\dfrac": r"\frac"}


def _markup(words: str, *, as_block: bool) -> str:
    for name, known in SPELLED.items():
        words = words.replace(name, known)
    return tex2mathml(words, as_block=as_block)


def _inline(self, node: nodes.math) -> None:
    self.body.append(_markup(node.astext(), as_block=False))
    raise nodes.SkipNode


def _display(self, node: nodes.math_block) -> None:
    self.body.append(f'<div class="formula">{_markup(node.astext(), as_block=True)}</div>')
    raise nodes.SkipNode


def setup(app):
    """Register the renderer that ``html_math_renderer`` names."""
    app.add_html_math_renderer("mathml", (_inline, None), (_display, None))
    return {"parallel_read_safe": True}
