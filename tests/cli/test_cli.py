import re

from click.testing import CliRunner

from eigenveil import Ledger, Release
from eigenveil.cli import main


def call(*arguments):
    return CliRunner().invoke(main, arguments)


def test_help_lists_the_commands_without_importing_them():
    result = call("--help")
    assert result.exit_code == 0
    assert "demo" in result.output
    assert "verify" in result.output


def test_the_demo_releases_and_verifies(tmp_path):
    result = call("demo", "--output", str(tmp_path))
    assert result.exit_code == 0, result.output
    (run,) = tmp_path.iterdir()
    folders = sorted(p for p in run.iterdir() if p.is_dir())
    assert [p.name for p in folders] == [
        "breast-cancer-covariance",
        "breast-cancer-pca",
        "digits-covariance",
        "digits-pca",
    ]
    for folder in folders:
        release = Release.verify(folder)
        assert not release.guarantee.simulated
        assert release.guarantee.budget.epsilon == 1.0
        assert Release.fingerprint(folder)[:16] in result.output
    assert len(Ledger(run / "digits.ledger").entries) == 2
    share = float(re.search(r"5 components\s+([\d.]+)%", result.output).group(1))
    assert 70 < share <= 100  # 93 on average, standard deviation about 2
    assert "What is promised" in result.output
    assert "epsilon = 1, delta = 1e-06" in result.output


def test_verify_speaks_and_sets_the_exit_code(tmp_path):
    call("demo", "--output", str(tmp_path))
    folder = next(tmp_path.glob("*/digits-pca"))
    good = call("verify", str(folder))
    assert good.exit_code == 0
    assert "intact" in good.output
    assert "Protected: one row" in good.output
    noted = Release.fingerprint(folder)
    assert call("verify", str(folder), "--fingerprint", noted).exit_code == 0
    assert call("verify", str(folder), "--fingerprint", noted[:16]).exit_code == 0
    assert call("verify", str(folder), "--fingerprint", noted[:8]).exit_code == 2
    assert call("verify", str(folder), "--fingerprint", "0" * 64).exit_code == 5
    (folder / "report.html").write_text("changed")
    bad = call("verify", str(folder))
    assert bad.exit_code == 5
    assert bad.output == (
        "error: the files do not match SHA256SUMS, damaged or altered: ask their sender for them "
        "again\n"
    )


def test_an_impossible_output_is_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    result = call("demo", "--output", str(tmp_path / "file"))
    assert result.exit_code == 2
    assert result.output.startswith("error: cannot write to")
    assert result.output.count("\n") == 1


def test_unknown_commands_are_usage_errors():
    assert call("nonsense").exit_code == 2


def test_a_mistyped_command_gets_a_guess():
    assert "No such command 'fitt', did you mean 'fit'?" in call("fitt").stderr
    assert "did you mean" not in call("zzz").stderr
