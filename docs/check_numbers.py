"""Numbers in the README and the documentation: where each comes from, and whether the cheap ones are still true.

    python docs/check_numbers.py            # what pytest runs: sources of all, values of the cheap ones
    python docs/check_numbers.py --list     # every section with numbers, and the commands that make them

A section that states a measured number (seconds, bytes, ratios, percentages, gaps) names the command that made it,
in its text or in a comment ``<!-- numbers: COMMAND -->``; the command must exist. Doctests check themselves. For the numbers in
``CHEAP`` a function computes the words in which the page states them, and these must stand there.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
MEASURED = re.compile(
    r"(?<![\w.])\d[\d,]*(?:\.\d+)?(?:e-?\d+)?(?: (?:ms|µs|ns|s|MB|kB|GB|times)|\s?×|%)(?!\w)"
    r"|\d\.\de-\d+|(?<![\w.])\d+ / \d+"
)
COMMAND = re.compile(
    r"python -m [\w.]+|reshuffle (?:reproduce|theory|demo|federate|fit|predict|compare|path)\b"
    r"|tests/(?:\w+/)?test_\w+\.py|<!-- numbers: [^>]+ -->"
)
GIVEN = "<!-- numbers: by definition -->"
"""For numbers that are chosen or worked out on the page."""

Words = Iterator[str]
CHEAP: dict[str, tuple[str, Callable[[], Words]]] = {}
"""Name -> the page, and what computes the words that must stand there."""


def cheap(page: str) -> Callable[[Callable[[], Words]], Callable[[], Words]]:
    """Register a check of a page."""

    def register(check: Callable[[], Words]) -> Callable[[], Words]:
        CHEAP[check.__name__] = (page, check)
        return check

    return register


def sections(page: Path) -> Iterator[tuple[str, str]]:
    """Heading and text of each section, without the code that doctest runs."""
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    parts = re.split(r"(?m)^#+ (.*)$", text)
    yield from zip(["", *parts[1::2]], parts[::2], strict=True)


def sources(page: Path) -> Iterator[tuple[str, list[str], list[str]]]:
    """Of each section with measured numbers: its heading, the numbers, the commands that it names."""
    for heading, text in sections(page):
        numbers = MEASURED.findall(
            re.sub(r"<!--.*?-->|`[^`]*`|\$\$.*?\$\$", "", text, flags=re.DOTALL)
        )
        if numbers:
            yield heading, numbers, COMMAND.findall(text)


def problems_of(page: Path) -> list[str]:
    """Sections without a source, and sources that do not exist."""
    name, found = page.relative_to(ROOT), []
    for heading, numbers, commands in sources(page):
        if not commands:
            found.append(f"{name}, '{heading}': no command for {', '.join(numbers[:4])}")
        found += [f"{name}, '{heading}': no {c}" for c in commands if not exists(c)]
    return found


def exists(command: str) -> bool:
    """Whether what a command names is in this repository, or comes with Python."""
    if modules := re.findall(r"python -m ([\w.]+)", command):
        own = [m for m in modules if m.split(".")[0] in ("benchmarks", "examples", "tests")]
        return all(_module(name) for name in own)
    if tests := re.findall(r"tests/(?:\w+/)?test_\w+\.py", command):
        return all((ROOT / path).exists() for path in tests)
    if given := re.findall(r"reshuffle (\w+)", command):
        from reshuffle.cli import main

        return all(name in main.commands for name in given)
    return command == GIVEN


def _module(name: str) -> bool:
    path = ROOT.joinpath(*name.split("."))
    return path.with_suffix(".py").exists() or (path / "__main__.py").exists()


def check(name: str) -> list[str]:
    """Words of a cheap check that do not stand on its page."""
    page, words = CHEAP[name]
    text = " ".join((ROOT / page).read_text().split())
    return [f"{page}: {name} finds '{word}', which the page does not say" for word in words() if word not in text]  # fmt: skip


def plain(value: float, digits: int = 2) -> str:
    """1.03e-3 as the pages write it."""
    mantissa, exponent = f"{value:.{digits}e}".split("e")
    return f"{mantissa}e{int(exponent)}"


# --- the cheap ones ------------------------------------------------------------------------------


@cheap("docs/reproduce.md")
def figure_1_constants() -> Words:
    """The table of choices of Figure 1."""
    from tempfile import TemporaryDirectory

    import reshuffle as rs
    from reshuffle.experiments import figure1
    from reshuffle.run_cache import RunCache

    X, y = rs.datasets.load_libsvm("a1a")
    with TemporaryDirectory() as folder:
        at = figure1.choose(X, y, RunCache(Path(folder)))
    L = at.problem.smoothness
    yield f"a1a ({at.problem.n:,} × {at.problem.features})"
    yield f"L_f/n = {plain(at.l2)}"
    yield f"L_f = {L.L_f:.3f}; L_max is {L.L_max:g}"
    yield f"λ_max/{2**at.k:g} = {plain(at.l1)}"
    yield f"for which that is so: {at.nonzero} of {at.problem.features}"


@cheap("docs/reproduce.md")
def theorems_against_expectations() -> Words:
    """How many comparisons there are, and how close the closest come."""
    from reshuffle.experiments.comparisons import everything, mistakes

    found, wrong = list(everything()), list(mistakes())[1::2]
    yield f"{len(found)} comparisons"
    far, near = (max(c.ratio for c in found if c.start == start) for start in ("far", "x*"))
    yield f"the closest is at {far:.2f} of its bound"
    yield f"from x\\* at {near:.2f}"
    yield f"γ = 3/L_max exceeds the bound {wrong[0].ratio:.1f} times"
    yield f"γn {round(wrong[1].ratio, -2):,.0f} times"


@cheap("docs/reproduce.md")
def predictions_on_a1a() -> Words:
    """What the theory says of a1a for ε = 0.15."""
    import reshuffle as rs
    from reshuffle import theory

    X, y = rs.datasets.load_libsvm("a1a")
    plain_problem = rs.Problem(X, y)
    l2 = plain_problem.smoothness.L_f / plain_problem.n
    problem = rs.Problem(X, y, penalty=rs.penalties.ElasticNet(0.001, l2))
    found, _ = theory.predictions(problem, theory.constants(problem), 0.15)
    epochs = {one.method: one.epochs for one in found}
    yield f"{round(epochs['ProxRR'], -3):,} epochs of ProxRR"
    yield f"or {round(epochs['ProxRR, measured σ_rad'], -2):,} with the radius"


@cheap("docs/extending.md")
def length_of_the_methods() -> Words:
    """How long the files of ``examples/methods`` are at most."""
    files = [p for p in (ROOT / "examples" / "methods").glob("*.py") if p.stem != "__init__"]
    longest = max(len(path.read_text().splitlines()) for path in files)
    yield f"in at most {-(-longest // 10) * 10} lines each"


def main() -> int:
    """Print what is missing or no longer true; 1 if anything is."""
    if "--list" in sys.argv:
        for page in PAGES:
            for heading, numbers, commands in sources(page):
                print(
                    f"{page.relative_to(ROOT)} | {heading} | {len(numbers)} | {'; '.join(commands)}"
                )
        return 0
    found = [problem for page in PAGES for problem in problems_of(page)]
    for name in CHEAP:
        found += check(name)
    print("\n".join(found) or f"{len(PAGES)} pages, {len(CHEAP)} cheap checks: all is as stated")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
