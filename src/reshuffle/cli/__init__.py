"""The command ``reshuffle``. To start quickly, each subcommand imports only what it needs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from reshuffle import __version__
from reshuffle.cli import models
from reshuffle.cli.common import Folder, Group, Output, output_options, progress_options
from reshuffle.cli.federate_keys import FederateCommand
from reshuffle.cli.flower import flower
from reshuffle.cli.options import (
    COUNT,
    ENGINES,
    POSITIVE,
    SEED,
    STRENGTH,
    flag,
    out_option,
    reading_of,
    table_options,
)
from reshuffle.cli.private import Private, privacy_options


@click.group(
    cls=Group,
    context_settings={"help_option_names": ["-h", "--help"], "show_default": True},
)
@click.version_option(__version__, prog_name="reshuffle")
def main() -> None:
    """Fit linear models with a penalty: from a table, or over sites that keep their data.

    By default a fit goes to the minimum of its objective and says how near to it the model is proved to be.

    \b
    Begin with one of these:
      reshuffle demo                                 compare the methods on data that comes with scikit-learn
      reshuffle fit customers.csv --target leaves    a model and a report from your table
      reshuffle federate sites.toml                  one model over several sites

    \b
    Exit codes: 0 done; 1 the input cannot be used, a run failed or a claim does not hold; 2 wrong usage;
    3 done, but the requested accuracy was not reached; 130 interrupted (143 by SIGTERM).

    \b
    Completion, once per shell:
      bash:  eval "$(_RESHUFFLE_COMPLETE=bash_source reshuffle)"
      zsh:   eval "$(_RESHUFFLE_COMPLETE=zsh_source reshuffle)"
      fish:  _RESHUFFLE_COMPLETE=fish_source reshuffle | source
    """


@main.command()
@click.option("--epochs", type=COUNT, default=100,
              help="Passes of each method over the data; ExactProxRR makes as many as it needs.")  # fmt: skip
@click.option("--seed", type=SEED, default=0, help="Draws the orders of the rows.")
@out_option("reshuffle-demo", "Folder for the figure and the traces.")
@progress_options
def demo(**options: Any) -> None:
    """Compare the exact method with the paper's on bundled data.

    The model is an elastic-net logistic regression on the breast-cancer data of scikit-learn. Prints a table and writes a
    figure: the gap to the minimum against passes over the data and against evaluations of the prox.

    \b
    Examples:
      reshuffle demo
      reshuffle demo --epochs 30 --out try --json
    """
    from reshuffle.cli.demo import run

    run(**options)


@main.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
@flag("--fetch", "Download what is not here.")
@output_options
def datasets(names: tuple[str, ...], fetch: bool, output: Output) -> None:
    """List data sets of LIBSVM's page: which are here, and where.

    They are looked for in the folder that RESHUFFLE_DATA names, then in the cache (RESHUFFLE_CACHE).

    \b
    Examples:
      reshuffle datasets
      reshuffle datasets a9a mushrooms --fetch
      reshuffle datasets --json
    """
    from reshuffle.cli.datasets import run

    if fetch and not names:
        raise click.UsageError("--fetch needs the names of the sets to download")
    run(names=names, fetch=fetch, output=output)


@main.command()
@click.argument("data")
@click.argument("folder", type=Folder())
@click.option("--format", type=click.Choice(["libsvm", "csv", "parquet", "npz"]),
              help="Format of DATA.  [default: detected from its first bytes and its name, else libsvm]")  # fmt: skip
@click.option("--target", "-t", help="Column of a table, or array of an NPZ file, to learn.")
@click.option("--drop", multiple=True, help="Leave out this column of a table (repeat for others).")
@click.option(
    "--separator", help="Character between the columns of a CSV file.  [default: , or a tab]"
)
@click.option("--dtype", "number", type=click.Choice(["float64", "float32"]), default="float64",
              help="Number type of the stored values.")  # fmt: skip
@click.option("--first-index", type=click.IntRange(0, 1),
              help="Index of the first feature in a LIBSVM file.  [default: 1, or 0 if the first lines contain it]")  # fmt: skip
@click.option("--shard-rows", type=COUNT, help="Rows of a shard.  [default: about 32 MB]")
@flag("--shuffle", "Put the rows in random order, by a second pass.")
@click.option("--seed", type=SEED, default=0, help="Draws the order of --shuffle.")
@progress_options
def convert(data: str, folder: Path, output: Output, **options: Any) -> None:
    """Turn a file into a folder for data larger than memory.

    `reshuffle fit FOLDER` then reads the rows in parts. DATA is LIBSVM text, CSV or Parquet with columns of numbers (the
    target may be text), a matrix (NPZ), or another such folder. It is read as a stream, in bounded memory. An interrupted conversion continues where it stopped: run the same
    command again. docs/scale.md describes the files, which numpy reads.

    \b
    Examples:
      reshuffle convert a9a a9a-shards
      reshuffle convert clicks.svm.gz clicks --shuffle --dtype float32
      reshuffle convert houses.parquet houses -t price --drop id
    """
    from reshuffle.cli.convert import run
    from reshuffle.datasets import Conversion

    run(data, folder, Conversion(**options), output)


@main.command()
@click.argument("data")
@table_options
@click.option("--l1", type=STRENGTH, default=0.0, show_default=False, help="λ1 of the penalty.")
@click.option("--l2", type=STRENGTH, help="λ2 of the penalty.  [default: L_f/n, or 0 with --ridge]")
@click.option("--ridge", type=STRENGTH, default=0.0, show_default=False,
              help="Strength of (λ/2)‖x‖² inside each f_i.")  # fmt: skip
@click.option(
    "--loss",
    type=click.Choice(["logistic", "squared", "huber", "squared_hinge"]),
    help="The loss of a sample.  [default: logistic; squared for a table with a target of numbers]",
)
@click.option(
    "--accuracy",
    type=POSITIVE,
    help="ε, the wanted E‖x - x*‖².  [default: a hundredth of the start's]",
)
@output_options
def theory(output: Output, **options: Any) -> None:
    """Show what the paper's theorems predict for your data.

    DATA is a table, a file in LIBSVM format, or the name of a known data set. Prints the constants, the step for a target
    accuracy, the epochs, gradients and prox evaluations that each method is predicted to need, which method the theory prefers, and a run to make with the bound that is proved for it. Of a table,
    columns are encoded as in `reshuffle fit`; there is no intercept, and the mean of a target of numbers is subtracted.

    \b
    Examples:
      reshuffle theory a1a
      reshuffle theory passengers.csv --target survived --impute
      reshuffle theory my.svm --l1 0.001 --accuracy 1e-4 --json
    """
    from reshuffle.cli.theory import run

    reading, options = reading_of(options)
    run(reading=reading, output=output, **options)


@main.command()
@click.argument("names", nargs=-1, required=True, metavar="figure1|figure2|theorems|claims|all")
@click.option(
    "--data",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder where data files are looked up first.",
)
@click.option("--dataset", metavar="NAME|FILE",
              help="Another set than the paper's: a name, or a file in LIBSVM format.")  # fmt: skip
@click.option("--seeds", type=COUNT, help="How many seeds.  [default: 10]")
@click.option(
    "--seed-list", metavar="1,2,3", help="The seeds themselves, in place of their number."
)
@click.option("--l1", type=POSITIVE, help="λ1 of figure1.  [default: chosen as the paper says]")
@click.option("--clients", type=COUNT, help="Number of clients in figure2.  [default: 10]")
@click.option("--epochs", type=COUNT, help="Passes of a run.  [default: 100]")
@flag("--quick", "Fewer seeds and epochs, for a try.")
@out_option("reshuffle-paper", "Folder for figures, numbers, pages, and finished runs to reuse.")
@click.option("--engine", type=ENGINES, default="threads", help="Where the clients of figure2 run.")
@progress_options
def reproduce(
    names: tuple[str, ...], seed_list: str | None, output: Output, **options: Any
) -> None:
    """Run the paper's figures and theorems, and check their claims.

    Writes figures (PNG and PDF), numbers (CSV) and an HTML page for each. Ends with exit code 1 if a
    claim does not hold in the run. On other data than the paper's (--dataset) it says whether the claims
    carry over; `claims` does so for every data set on this machine.

    \b
    Examples:
      reshuffle reproduce theorems --quick
      reshuffle reproduce all --data ~/data --out paper
      reshuffle reproduce figure1 --dataset a9a --seed-list 1,2,3
    """
    from reshuffle.cli.reproduce import listed, run
    from reshuffle.experiments import Settings

    run(names, Settings(progress=output.live, seed_list=listed(seed_list), **options), output)


@main.command(cls=FederateCommand)
@click.argument("data")
@click.option("--clients", type=COUNT, default=10, help="How many clients one file is split among.")
@click.option(
    "--split",
    default="iid",
    help="How one file is split: iid, by-label, quantity, dirichlet, or column:J (one client per value of feature J).",
)
@click.option("--alpha", type=POSITIVE, default=0.5,
              help="Concentration of the Dirichlet splits: smaller values give more uneven clients.")  # fmt: skip
@click.option(
    "--method",
    type=click.Choice(["exact", "fedrr", "local-sgd", "newton"]),
    default="exact",
    help="exact and newton go to the minimum for the pooled data; fedrr and local-sgd come near it.",
)
@click.option(
    "--engine", type=ENGINES, default="threads",
    help="Where the clients run: in threads of this process, or on a Ray cluster on this machine.",
)  # fmt: skip
@click.option("--rounds", type=COUNT, default=100, help="The most rounds of the run.")
@click.option(
    "--l1",
    type=STRENGTH,
    default=0.0,
    show_default=False,
    help="Strength λ1 of ‖w‖₁.  [default: 0]",
)
@click.option(
    "--l2",
    type=STRENGTH,
    help="Strength λ2 of ‖w‖²/2.  [default: L_f/N, computed from the data]",
)
@click.option("--tol", type=STRENGTH, default=0.0, show_default=False,
              help="Stop at this relative accuracy of the objective.  [default: make all rounds]")  # fmt: skip
@click.option(
    "--evaluate",
    type=COUNT,
    metavar="N",
    help="Judge the model by the sites' test data every N rounds. The final model is judged in any case.",
)
@click.option(
    "--transport",
    type=click.Choice(["float64", "float32", "bfloat16"]),
    default="float64",
    help="How answers travel to the server: the other two take fewer bytes and have the same limit.",
)
@click.option(
    "--downlink",
    type=click.Choice(["float64", "rounded"]),
    default="float64",
    help="How the model travels to the clients: rounded to as few bytes as its last change allows.",
)
@privacy_options("client", "sample")
@click.option("--seed", type=SEED, default=0, help="Draws splits and the orders of rows.")
@out_option("reshuffle-federation", "Folder for model, report, checkpoint, trace and picture.")
@flag("--resume", "Go on from the checkpoint in the folder.")
@flag("--force", "Overwrite the run that is in the folder.")
@progress_options
def federate(output: Output, **options: Any) -> int:
    """Train one model over several sites that keep their rows.

    Each round every site works on its own rows and sends back a model or sums. DATA is a file that says where each site's data lies (sites.toml), a folder with a file for each site, or
    one file in LIBSVM format (or the name of one), which is split among clients to try things out.
    A checkpoint is written after every round. At the end the folder has model.npz, which `reshuffle predict`
    takes, and report.html.

    \b
    Examples:
      reshuffle federate sites.toml --tol 1e-6
      reshuffle predict reshuffle-federation/model.npz new.csv
      reshuffle federate a9a --clients 20 --split by-label
      reshuffle federate my.svm --method fedrr --rounds 50 --out run --resume
      reshuffle federate sites.toml --method fedrr --rounds 20 --step 0.5 --l2 0.01
                --privacy client --clip 0.5 --epsilon 4 --delta 1e-3 --noise-at sites
      reshuffle federate keys trial --site north --site south     (for secure sums; see federate keys --help)
    """
    from reshuffle.cli.federate import Options, run

    return run(Options(private=Private.taken(options), **options), output)


for command in (models.fit, models.path, models.predict, models.export, models.compare, flower):
    main.add_command(command)
