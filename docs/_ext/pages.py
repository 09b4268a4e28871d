"""Pages of the reference that are made from the code: the API, mechanisms, commands, exit codes.

They are written to ``docs/reference/generated`` before the site is read, so that what is public and
what is described cannot part.
"""

import re
import shutil
from importlib import import_module
from inspect import cleandoc, isclass
from pathlib import Path
from types import ModuleType

import click

from eigenveil import exceptions
from eigenveil.cli import main
from eigenveil.mechanisms import entries
from eigenveil.privacy import Kind, Numerics

DOCS = Path(__file__).parents[1]
ROOT = DOCS.parent
FOLDER = DOCS / "reference" / "generated"
PACKAGES = {
    "eigenveil": "Estimators, tables, ledgers and releases",
    "eigenveil.planning": "What to expect before anything is spent",
    "eigenveil.privacy": "What owners of tables state",
    "eigenveil.release": "Releases and their owners",
    "eigenveil.release.postprocessing": "What a released covariance is good for",
    "eigenveil.release.export": "Releases for other tools",
    "eigenveil.report": "Pages and figures",
    "eigenveil.federated": "Tables that stay with their owners",
    "eigenveil.audit": "Attacks on mechanisms",
    "eigenveil.datasets": "Made-up tables",
    "eigenveil.exceptions": "Errors",
}

# Doors that have more names than users need.
NAMES = {
    "eigenveil.planning": (
        "Choice choose default_scale_share foresee Needed needed_epsilon needed_rows "
        "predict Prediction predictions private_scale_share Rate recommend Recommendation "
        "reference Situation Spiked spiked"
    ),
    "eigenveil.privacy": "Contribution",
    "eigenveil.release": "generate_key private_key Release",
    "eigenveil.report": (
        "CovarianceDisplay figures LoadingsDisplay PlanDisplay ScreeDisplay SpendDisplay write"
    ),
    "eigenveil.federated": (
        "Agreement Coordinator Journal Limits Owner OwnerSettings simulate Transport"
    ),
}


def heading(words: str, line: str = "=") -> str:
    """Return a heading of reStructuredText."""
    return f"{words}\n{line * len(words)}\n\n"


def table(head: tuple[str, ...], rows: list[tuple[str, ...]], widths: str = "auto") -> str:
    """Return a table of reStructuredText, without a first line where there is no head."""
    lines = [".. list-table::", f"   :header-rows: {len(head) and 1}", f"   :widths: {widths}", ""]
    for row in (head, *rows) if head else rows:
        lines += [f"   {'*' if i == 0 else ' '} - {cell}" for i, cell in enumerate(row)]
    return "\n".join(lines) + "\n\n"


def first(thing: object) -> str:
    """Return the first paragraph of a docstring, in one line."""
    return " ".join(cleandoc(thing.__doc__ or "").split("\n\n")[0].split())


def public(module: ModuleType) -> list[str]:
    """Return the names of a package, or of a module, that are described."""
    if (named := NAMES.get(module.__name__)) is not None:
        return named.split()
    if hasattr(module, "__all__"):
        return list(module.__all__)
    here = ((name, getattr(thing, "__module__", None)) for name, thing in vars(module).items())
    return [name for name, home in here if home == module.__name__ and not name.startswith("_")]


def api() -> dict[str, str]:
    """Return a page for each public package, and one for each of its public names."""
    pages, listed, homes = {}, [], {}
    for package, about in PACKAGES.items():
        module, rows, inside = import_module(package), [], []
        for name in sorted(public(module), key=str.lower):
            thing, page = getattr(module, name), f"{package}.{name}"
            if any(known is thing for known in homes.values()):
                page = next(home for home, known in homes.items() if known is thing)
                rows.append((f":doc:`{name} <{page}>`", first(thing)))
            elif callable(thing):
                homes[page] = thing
                inside.append(page)
                rows.append((f":doc:`{name} <{page}>`", first(thing)))
                kind = "autoclass" if isclass(thing) else "autofunction"
                pages[page] = heading(name) + f".. {kind}:: {page}\n"
                if isclass(thing) and not issubclass(thing, Exception):
                    pages[page] += "   :members:\n   :inherited-members: object, tuple\n"
        pages[package] = (
            heading(package)
            + f"{about}.\n\n"
            + table(("name", "what it is"), rows, "30 70")
            + toctree(inside, hidden=True)
        )
        listed.append((f":doc:`{package}`", about))
    pages["api"] = heading("Python") + table(("package", "what is in it"), listed, "30 70")
    pages["api"] += toctree(list(PACKAGES), hidden=True)
    return pages


def toctree(pages: list[str], *, hidden: bool = False) -> str:
    """Return a table of contents."""
    lines = [".. toctree::", *(["   :hidden:"] if hidden else ["   :maxdepth: 1"]), ""]
    return "\n".join([*lines, *(f"   {page}" for page in pages)]) + "\n\n"


def tests_of(module: str, name: str) -> list[Path]:
    """Return the files with the tests of a mechanism."""
    defined = vars(import_module(module)).items()
    classes = [name for name, thing in defined if getattr(thing, "__module__", None) == module]
    known = re.compile(rf"\b(?:{'|'.join(classes)})\(")
    folder = ROOT / "tests" / "mechanisms"
    named = folder / f"test_{module.rpartition('.')[2]}.py"
    found = [path for path in sorted(folder.glob("test_*.py")) if known.search(path.read_text())]
    if not (named.exists() or found):
        found = [
            path for path in sorted(folder.glob("test_*.py")) if f'"{name}"' in path.read_text()
        ]
    return [named] if named.exists() else found


def mechanisms() -> dict[str, str]:
    """Return a page for each mechanism that users can name, and the tests it leads to."""
    pages, rows, shown = {}, [], {}
    for one in entries():
        name, module = f"{one.name}-{one.releases}", one.module
        promise = ", ".join(one.notions)
        promise += f"; {'idealised' if one.numerics is Numerics.IDEALISED else 'exact'} numerics"
        if one.pure_numerics is not None:
            promise += f" ({one.pure_numerics.value} for a pure epsilon)"
        promise += "; model-based" if one.kind is Kind.MODEL_BASED else "; worst-case"
        proof, tests = one.proof, tests_of(module, one.name)
        for path in tests:
            # Led to from the mechanism alone: lists of contents would drown in them.
            pages[path.stem] = (
                ":orphan:\n\n"
                + heading(f"tests/mechanisms/{path.name}")
                + (f".. literalinclude:: /../tests/mechanisms/{path.name}\n   :language: python\n")
            )
        facts = [
            ("releases", one.releases),
            ("how", one.about),
            ("source", one.source),
            ("guarantee", promise),
            ("chosen by ``auto``", one.auto or "never"),
            ("proof", f":doc:`why it is private </proofs/{proof}>`"),
            ("tests", ", ".join(f":doc:`{path.name} <{path.stem}>`" for path in tests)),
        ]
        pages[name] = (
            heading(f"``{one.name}``: {one.releases}")
            + f"``mechanism={one.name!r}`` in Python, ``--mechanism {one.name}`` in the shell.\n\n"
            + table((), facts, "20 80")
            + (
                f"The same file as :doc:`{shown[module]}`, which describes all that is in it.\n"
                if module in shown
                else f".. automodule:: {module}\n   :members:\n"
            )
        )
        shown.setdefault(module, name)
        rows.append((f":doc:`{one.name} <{name}>`", one.releases, one.about, promise))
    listed = sorted(page for page in pages if not page.startswith("test_"))
    pages["mechanisms"] = (
        heading("Mechanisms, one page each")
        + "Each page has the formula, its options, its proof and its tests. Which one to take: "
        + ":doc:`/how_to/mechanism`.\n\n"
        + table(("name", "releases", "how", "guarantee"), rows)
        + toctree(listed, hidden=True)
    )
    return pages


def commands() -> dict[str, str]:
    """Return one page with every command, its help and its options."""
    context = click.Context(main, info_name="eigenveil")
    words = heading("Commands") + (
        "Made from the commands themselves. How they work together: :doc:`/command_line`.\n\n"
    )
    return {"commands": words + "".join(_commands(main, context))}


def _commands(group: click.Group, context: click.Context) -> list[str]:
    found = []
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        inner = click.Context(command, info_name=name, parent=context)
        if isinstance(command, click.Group):
            found += _commands(command, inner)
            continue
        usage = " ".join([inner.command_path, *command.collect_usage_pieces(inner)])
        rows = []
        for option in command.params:
            record = option.get_help_record(inner)
            if record and not isinstance(option, click.Argument):
                rows.append((f"``{record[0]}``", plain(record[1])))
        found.append(
            heading(inner.command_path, "-")
            + f"::\n\n   {usage}\n\n"
            + plain(cleandoc(command.help or "").replace("\b", ""))
            + "\n\n"
            + (table(("option", "meaning"), rows, "30 70") if rows else "")
        )
    return found


def plain(words: str) -> str:
    """Return words in which nothing is markup."""
    return re.sub(r"([*`|_\\])", r"\\\1", words)


def errors() -> dict[str, str]:
    """Return the page of exit codes, with the errors behind them."""
    kinds = [getattr(exceptions, name) for name in exceptions.__all__]
    rows = sorted(
        (str(kind.exit_code), f":doc:`eigenveil.exceptions.{kind.__name__}`", first(kind))
        for kind in kinds
        if issubclass(kind, exceptions.EigenveilError)
    )
    words = heading("Exit codes") + (
        "Every error of eigenveil is one line that says what to do next. The command line ends "
        "with the code of its kind: 0 is success, 1 a fault of eigenveil, 130 an interruption.\n\n"
    )
    return {
        "exit_codes": words + table(("code", "error in Python", "what happened"), rows, "10 35 55")
    }


def write(app=None) -> None:
    """Write every page anew."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    for name, text in {**api(), **mechanisms(), **commands(), **errors()}.items():
        (FOLDER / f"{name}.rst").write_text(text, "utf-8")


def listed() -> set[str]:
    """Return the pages that tables of contents in Markdown name."""
    found = set()
    for path in (*DOCS.glob("*.md"), *DOCS.glob("*/index.md")):
        for block in re.findall(
            r"^```\{toctree\}\n(.*?)^```", path.read_text("utf-8"), re.M | re.S
        ):
            for line in block.splitlines():
                named = (path.parent / re.sub(r".*<(.*)>", r"\1", line)).resolve()
                found.add(named.relative_to(DOCS).as_posix())
    return found


def lead_here(app, page: str, source: list[str]) -> None:
    """Let links to sources of mechanisms, and to what is outside of the site, lead to its pages."""
    up = "../" * page.count("/")
    words = source[0].replace("(../README.md)", "(index.md)")
    overview = "(reference/generated/mechanisms.rst)"
    words = words.replace("(../src/eigenveil/mechanisms/README.md)", overview)
    for one in entries():
        path = one.module.replace(".", "/") + ".py"
        here = f"({up}reference/generated/{one.name}-{one.releases}.rst)"
        words = words.replace(f"(../{up}src/{path})", here)
    if page in ("proofs/README", "papers/README"):  # which name their pages in tables
        names = sorted(path.stem for path in (DOCS / page).parent.glob("[a-z]*.md"))
        words += "\n```{toctree}\n:hidden:\n" + "\n".join(names) + "\n```\n"
    if page == "how_to/index":  # guides that no other page lists
        guides = sorted({path.stem for path in DOCS.glob("*.md")} - listed() - {"index"})
        words += "\n```{toctree}\n:maxdepth: 1\n" + "\n".join(f"/{n}" for n in guides) + "\n```\n"
    source[0] = words


def own_members(app, kind, name, thing, skip, options) -> bool | None:
    """Leave out what scikit-learn adds to every estimator."""
    module = getattr(thing, "__module__", None) or ""
    return True if module.startswith("sklearn.") or name.startswith("set_") else None


def bars(app, kind, name, thing, options, lines: list[str]) -> None:
    """Take bars of a docstring as lengths, outside of formulas: they mark nothing here."""
    formula = False
    for i, line in enumerate(lines):
        formula = ".. math::" in line or (formula and line.startswith(" "))
        if not formula:
            lines[i] = line.replace("|", "\\|")


def setup(app):
    """Write the pages before sources are looked for."""
    app.connect("builder-inited", write)
    app.connect("source-read", lead_here)
    app.connect("autodoc-skip-member", own_members)
    app.connect("autodoc-process-docstring", bars)
    return {"parallel_read_safe": True}
