import pytest

from eigenveil.cli.wording import in_options


@pytest.mark.parametrize(
    ("library", "command_line"),
    [
        (
            "give bounds=(low, high) for the entries, or row_norm=R for the length",
            "give --bounds LOW,HIGH for the entries, or --row-norm R for the length",
        ),
        (
            "or mechanism='spherical' with centring='none'",
            "or --mechanism spherical with --centring none",
        ),
        (
            "choose adjacency='replace-one', or state n_components",
            "choose --adjacency replace-one, or state --k",
        ),
        ("leave row_norm out", "leave --row-norm out"),
        ("choose others with open_rows(path, columns=[...])", "choose others with --columns a,b"),
        ("epsilon must be positive and finite", "epsilon must be positive and finite"),
        ("spent epsilon = 1 of 2 at delta = 1e-06", "spent epsilon = 1 of 2 at delta = 1e-06"),
        (
            "create one with Ledger.create(path, ..., unit='person') or eigenveil ledger init "
            "--unit person",
            "create one with eigenveil ledger init FILE --unit person --epsilon E --delta D",
        ),
        (
            "pass mechanism=Spiked(model=SpikedModel(...))",
            "pass mechanism=Spiked(model=SpikedModel(...))",
        ),
        ("or pass mechanism=Tangent(lazy=False)", "or pass --set lazy=false"),
    ],
)
def test_arguments_become_options(library, command_line):
    assert in_options(library) == command_line
