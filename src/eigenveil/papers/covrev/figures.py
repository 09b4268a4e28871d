"""Figures of Dong, Liang, Yi 2022 [CovRev]: covariances in Frobenius norm."""

from eigenveil.papers.claims import Claim, below, best_of, every, falls, gains, often_below, steady
from eigenveil.papers.covrev.runs import mnist, news, synthetic, synthetic_pure
from eigenveil.papers.figure import Compared, Figure, Method, Panel, Scale

_PAPER = "Dong, Liang, Yi 2022"

_METHODS = (
    Method("SeparateCov", "printed", "Algorithm 1"),
    Method("AdaptiveCov", "printed", "Algorithm 2 at radius 1, beta = 0.1"),
    Method(
        "AdaptiveCov, tuned", "printed", "as the authors' program has it, at or below its error"
    ),
    Method("GaussCov", "published", "noise of one size on every entry"),
    Method("EMCov", "published", "Amin et al. 2019, an exact sampler of this library"),
    Method("zero", "reference"),
    Method("cleaned", "ours", "one isotropic release, eigenvalues cleaned"),
    Method("adaptive-cleaned", "ours", "the same at a private bound"),
)

_PURE_METHODS = (
    Method("SeparateCov", "printed", "Appendix I"),
    Method("LapCov", "published", "noise of one size on every entry"),
    Method("EMCov", "published", "Amin et al. 2019, an exact sampler of this library"),
    Method("zero", "reference"),
    Method("wishart", "ours", "two-sided Wishart noise, eigenvalues cleaned"),
)

_PUBLISHED = ("GaussCov", "SeparateCov", "AdaptiveCov", "EMCov")
_COMPARED = (Compared("adaptive-cleaned", _PUBLISHED, "rho"),)
_PURE_COMPARED = (Compared("wishart", ("LapCov", "SeparateCov", "EMCov"), "pure epsilon"),)

_BEST = {
    "as printed": "AdaptiveCov",
    "authors' program": "AdaptiveCov, tuned",
    "ours": "adaptive-cleaned",
}

_SEPARATE = {"as printed": "SeparateCov", "ours": "cleaned"}
_PURE_SEPARATE = {"as printed": "SeparateCov", "ours": "wishart"}

_REAL = (
    Claim(
        "GaussCov never outperforms SeparateCov, but for a very small advantage in a few cases",
        below("GaussCov"),
        _SEPARATE,
    ),
    Claim(
        "AdaptiveCov outperforms both GaussCov and SeparateCov in many cases",
        often_below("GaussCov", "SeparateCov", share=1 / 3),
        _BEST,
    ),
)

_DEFAULT = {"n": 50_000, "d": 200, "N": 4, "rho": 0.1, "emcov_up_to": 200}
_SMALLER = {"n": 20_000, "d": 100, "emcov_up_to": 100}
_PURE_DEFAULT = {"n": 50_000, "d": 200, "N": 4, "epsilon": 1.0, "emcov_up_to": 200}
_DIMENSIONS = (10, 50, 100, 200, 400, 800)
_REPEATS: dict[Scale, int] = {"small": 4, "paper": 50}
_IMAGES = {"n": 60_000, "digit": None, "rho": 0.1, "emcov_up_to": 0}
_SMALL_RHO = (0.01, 0.1, 1.0)
_RHO = (0.01, 0.0316, 0.1, 0.316, 1.0)
_NO_EMCOV = "EMCov is left out: 784 directions by rejection take minutes a run"
_GRID = "the values on the axes are ours: the text does not give them"

FIGURES = (
    Figure(
        name="covrev:fig2",
        source=f"{_PAPER}, Figure 2, section 6.1",
        measure="Frobenius error",
        methods=_METHODS,
        panels=tuple(
            Panel(
                f"n = {n}",
                "d",
                _DIMENSIONS,
                {"n": n, "N": 1, "rho": 0.1, "emcov_up_to": 200},
                (10, 50, 100, 200, 400),
                {"emcov_up_to": 50},
                True,
            )
            for n in (1000, 4000, 16000)
        ),
        work=synthetic,
        claims=(
            Claim(
                "for low d, GaussCov is (slightly) better than SeparateCov",
                below("SeparateCov", where=lambda at: at["d"] <= 10),
                {"as printed": "GaussCov"},
            ),
            Claim(
                "for high d, SeparateCov is much better than GaussCov",
                below("GaussCov", where=lambda at: at["d"] >= 400 and at["n"] < 16_000, factor=0.5),
                _SEPARATE,
            ),
            Claim(
                "AdaptiveCov chooses the better of the two, with a small cost",
                best_of("GaussCov", "SeparateCov", within=1.5),
                _BEST,
            ),
            Claim("SeparateCov outperforms EMCov", below("EMCov"), _SEPARATE),
        ),
        repeats=_REPEATS,
        compared=_COMPARED,
        notes=(_GRID,),
    ),
    Figure(
        name="covrev:fig3",
        source=f"{_PAPER}, Figure 3, section 6.1",
        measure="Frobenius error",
        methods=_METHODS,
        panels=(
            Panel("(a)", "N", (1, 2, 4, 8, 16, 32), _DEFAULT, (1, 2, 4, 8, 16), _SMALLER),
            Panel("(b)", "d", (50, 100, 200, 400, 800), _DEFAULT, (50, 100, 200), _SMALLER, True),
            Panel(
                "(c)",
                "n",
                (5_000, 10_000, 50_000, 100_000),
                _DEFAULT,
                (2_000, 8_000, 32_000),
                _SMALLER,
                True,
            ),
            Panel("(d)", "rho", _RHO, _DEFAULT, _SMALL_RHO, _SMALLER, True),
        ),
        work=synthetic,
        claims=(
            Claim(
                "GaussCov is not trace-sensitive", steady(1.1, "(a)"), {"as printed": "GaussCov"}
            ),
            *(
                Claim(
                    f"{name} is trace-sensitive: its error falls with the trace",
                    falls("(a)", least=4.0),
                    {"ours" if name == "cleaned" else "as printed": name},
                )
                for name in ("SeparateCov", "AdaptiveCov", "EMCov", "cleaned")
            ),
            Claim(
                "the zero matrix is the best trace-sensitive one if the trace is small enough",
                below(
                    "SeparateCov",
                    "AdaptiveCov",
                    "GaussCov",
                    panel="(a)",
                    where=lambda at: at["N"] >= 16,
                ),
                {"as printed": "zero"},
            ),
            Claim(
                "with higher d SeparateCov becomes better while GaussCov becomes worse",
                gains("GaussCov", "(b)", along=1),
                _SEPARATE,
            ),
            Claim("with smaller n likewise", gains("GaussCov", "(c)", along=-1), _SEPARATE),
            Claim("with smaller rho likewise", gains("GaussCov", "(d)", along=-1), _SEPARATE),
            Claim(
                "AdaptiveCov is able to pick the better one (panels b to d)",
                every(
                    *(
                        best_of("GaussCov", "SeparateCov", within=1.5, panel=panel)
                        for panel in ("(b)", "(c)", "(d)")
                    )
                ),
                _BEST,
            ),
        ),
        repeats=_REPEATS,
        compared=_COMPARED,
        notes=(_GRID,),
    ),
    Figure(
        name="covrev:fig4",
        source=f"{_PAPER}, Figure 4, section 6.2",
        measure="Frobenius error",
        methods=_METHODS,
        panels=(
            Panel(
                "rho = 0.1", "n", (5_000, 10_000, 20_000, 60_000), _IMAGES, (2_000, 6_000), {}, True
            ),
            Panel("all images", "rho", _RHO, _IMAGES, _SMALL_RHO, {"n": 6_000}, True),
        ),
        work=mnist,
        claims=_REAL,
        repeats={"small": 3, "paper": 50},
        compared=_COMPARED,
        data=("mnist.npz",),
        notes=(_NO_EMCOV, _GRID),
    ),
    Figure(
        name="covrev:fig5",
        source=f"{_PAPER}, Figure 5, section 6.2",
        measure="Frobenius error",
        methods=_METHODS,
        panels=(
            Panel(
                "rho = 0.1",
                "d",
                (64, 256, 1024),
                {"n": 15_000, "rho": 0.1, "emcov_up_to": 0},
                (64, 256),
                {"n": 5_000},
                True,
            ),
            Panel(
                "d = 256",
                "rho",
                _RHO,
                {"n": 15_000, "d": 256, "emcov_up_to": 0},
                _SMALL_RHO,
                {"n": 5_000},
                True,
            ),
        ),
        work=news,
        claims=_REAL,
        repeats={"small": 4, "paper": 50},
        compared=_COMPARED,
        data=("reuters21578.jsonl.xz",),
        notes=(
            "Reuters-21578 stands in for the news commentary corpus, which is not here: documents "
            "are shorter, so rows are sparser",
            "rows of norm 1 only, where the paper also divides by the largest norm, which is data",
            "EMCov is left out: hundreds of directions by rejection take minutes a run",
        ),
    ),
    Figure(
        name="covrev:fig6",
        source=f"{_PAPER}, Figure 6, Appendix J.1",
        measure="Frobenius error",
        methods=_METHODS,
        panels=(
            Panel(
                "rho = 0.1",
                "digit",
                tuple(range(10)),
                _IMAGES | {"n": 7_000},
                (0, 1, 8),
                {"n": 2_000},
            ),
        ),
        work=mnist,
        claims=_REAL,
        repeats={"small": 3, "paper": 50},
        compared=_COMPARED,
        data=("mnist.npz",),
        notes=(_NO_EMCOV,),
    ),
    Figure(
        name="covrev:fig7",
        source=f"{_PAPER}, Figure 7, Appendix J.2",
        measure="Frobenius error",
        methods=_PURE_METHODS,
        panels=tuple(
            Panel(
                f"n = {n}",
                "d",
                (10, 20, 50, 100, 200),
                {"n": n, "N": 1, "epsilon": 1.0, "emcov_up_to": 200},
                (10, 20, 50, 100),
                {"emcov_up_to": 50},
                True,
            )
            for n in (1000, 4000, 16000, 64000)
        ),
        work=synthetic_pure,
        claims=(
            Claim("SeparateCov always outperforms EMCov", below("EMCov"), _PURE_SEPARATE),
            *(
                Claim(
                    f"SeparateCov gains on LapCov with higher d (n = {n})",
                    gains("LapCov", f"n = {n}", along=1),
                    _PURE_SEPARATE,
                )
                for n in (4000, 16000)
            ),
            Claim(
                "a larger n is needed to outperform the zero matrix (n = 1000, d >= 50: none does)",
                below("SeparateCov", "LapCov", where=lambda at: at["n"] == 1000 and at["d"] >= 50),
                {"as printed": "zero"},
            ),
        ),
        repeats=_REPEATS,
        compared=_PURE_COMPARED,
        notes=(_GRID,),
    ),
    Figure(
        name="covrev:fig8",
        source=f"{_PAPER}, Figure 8, Appendix J.2",
        measure="Frobenius error",
        methods=_PURE_METHODS,
        panels=(
            Panel(
                "(a)",
                "d",
                (20, 50, 100, 200, 400),
                _PURE_DEFAULT,
                (20, 50, 100),
                {"emcov_up_to": 50},
                True,
            ),
            Panel("(b)", "N", (1, 2, 4, 8), _PURE_DEFAULT, None, {"emcov_up_to": 0}),
            Panel(
                "(c)",
                "epsilon",
                (0.1, 0.3, 1.0, 3.0, 10.0),
                _PURE_DEFAULT,
                (0.3, 1.0, 3.0),
                {"emcov_up_to": 0},
                True,
            ),
        ),
        work=synthetic_pure,
        claims=(
            Claim("SeparateCov always outperforms EMCov", below("EMCov"), _PURE_SEPARATE),
            Claim(
                "SeparateCov gains with higher d", gains("LapCov", "(a)", along=1), _PURE_SEPARATE
            ),
            Claim(
                "SeparateCov gains with smaller epsilon",
                gains("LapCov", "(c)", along=-1),
                _PURE_SEPARATE,
            ),
        ),
        repeats=_REPEATS,
        compared=_PURE_COMPARED,
        notes=(_GRID,),
    ),
)
