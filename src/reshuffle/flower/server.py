"""The ServerApp: the driver of a federation over the nodes of a SuperLink, from the handshake to the model."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from reshuffle.callbacks import Checkpoint
from reshuffle.engines import Failure, Reply, Task
from reshuffle.engines.flower import Flower, Nodes
from reshuffle.engines.flower.nodes import Mailbox, short
from reshuffle.errors import ClientError, InputError, extra
from reshuffle.federated import FederatedResult, Site, Sites
from reshuffle.federated.remote_federation import RemoteFederation
from reshuffle.flower.outcome import alone, check_folder, clear_outcome, report_round, write
from reshuffle.flower.pins import held_pins, write_pins
from reshuffle.flower.settings import RunSettings
from reshuffle.losses import Loss
from reshuffle.penalties import L2, Penalty

if TYPE_CHECKING:
    from flwr.app import Context
    from flwr.serverapp import Grid, ServerApp

AT_HOME = "a file at its node"
"""A placeholder for the data of a site, which the server never sees."""
logger = logging.getLogger("reshuffle")


class NodeSites(Sites):
    """Sites that are described by their nodes."""

    def __init__(
        self, nodes: Nodes, loss: Loss, penalty: Penalty | None, settings: RunSettings
    ) -> None:
        said = {str(record["site"]): record for record in nodes.said.values()}
        self._first = int(all(said[name]["first"] for name in nodes.sites))
        super().__init__(
            [Site(AT_HOME, name, AT_HOME if said[name]["test"] else None) for name in nodes.sites],
            loss, penalty, settings.ridge, settings.intercept, standardise=settings.standardise,
            objective=settings.objective, power_rounds=settings.power_rounds, watch=self._watch,
            choose_penalty=_asked if penalty is None else None, secure=settings.made_secure() or False,
            **vars(settings.cells),
        )  # fmt: skip

    @property
    def first_index(self) -> int:
        return self._first

    def _watch(self, task: Task, answer: Reply | Failure, reason: str) -> None:
        """Log a line for each client that did not answer."""
        if reason and isinstance(answer.client, int) and 0 <= answer.client < len(self.sites):
            logger.warning(
                "round %d, site %s: %s", task.round, self.sites[answer.client].name, reason
            )


def _asked(gathered: RemoteFederation) -> Penalty:
    """λ = L_f/N, which the sites are asked for."""
    return L2(gathered.smoothness.L_f / gathered.n)


def server_app(loss: Loss | None = None, penalty: Penalty | None = None) -> ServerApp:
    """A ServerApp that trains what its run configuration says, and writes model, report and trace.

    ``loss`` and ``penalty`` are objects of your own in place of the configuration's. A loss must be given to
    ``client_app`` too; a penalty is used by the server alone.
    """
    with extra("flower", "flwr", "a ServerApp"):
        from flwr.serverapp import ServerApp

    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        train(grid, RunSettings.of(context.run_config), loss, penalty)

    return app


def train(
    grid: Mailbox, settings: RunSettings, loss: Loss | None = None, penalty: Penalty | None = None
) -> FederatedResult:
    """Find the nodes of all sites, train over them, and write the files of the run."""
    logging.basicConfig(format="%(message)s")
    logger.setLevel(logging.INFO)
    out = settings.folder
    check_folder(out, settings.resume, settings.force)
    penalty = penalty if penalty is not None else settings.made_penalty()
    if penalty is None and settings.privacy:
        raise InputError(
            "penalty must be given with privacy: the default, ℓ2 of L_f/N, is found from the data"
        )
    nodes = Nodes(grid, settings.names)
    solver = settings.solver(Flower(nodes, settings.patience, settings.largest))
    method = type(solver).__name__
    with alone(out):
        # A run may have ended in the meantime.
        checkpoint = check_folder(out, settings.resume, settings.force)
        clock = time.perf_counter()
        nodes.pinned = held_pins(out, settings.renewed)
        for name, node in nodes.find(settings.wait).items():
            registered = f", registered as {node.registered}" if node.registered else ""
            logger.info("site %s: node %d, key %s%s", name, node.id, short(node.key), registered)
        write_pins(out, nodes.keys)
        sites = NodeSites(nodes, loss or settings.made_loss(), penalty, settings)
        logger.info("%s, %s", sites, method)
        # This is just before a checkpoint is written.
        before = [] if settings.resume else [lambda _: clear_outcome(out)]
        try:
            result = solver.solve(
                sites,
                callbacks=[*before, Checkpoint(checkpoint), report_round],
                resume=checkpoint if settings.resume else None,
            )
        except ClientError:
            if checkpoint.is_file():
                logger.error(
                    "the rounds so far are in %s: --run-config 'resume=true' goes on", checkpoint
                )
            raise
        write(result, out, settings, method, time.perf_counter() - clock)
        return result
