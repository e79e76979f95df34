"""The ClientApp: hands every message to the host of the node's site."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from reshuffle import __version__
from reshuffle.engines import Failure, Task
from reshuffle.engines.flower.messages import WHO, answer_content, task_of
from reshuffle.engines.flower.records import add_record, get_record
from reshuffle.errors import InputError, extra
from reshuffle.federated import Site
from reshuffle.federated.private_text import told
from reshuffle.federated.secure.settings import guard_of
from reshuffle.federated.site_host import SiteHost
from reshuffle.flower.home import PATHS, name_of, site_of
from reshuffle.flower.noise_key import kept_noise
from reshuffle.flower.settings import RunSettings
from reshuffle.losses import Loss
from reshuffle.privacy.noise import RepeatedNoise

if TYPE_CHECKING:
    from flwr.app import Context, Message
    from flwr.clientapp import ClientApp

    from reshuffle.federated.secure.guard import Guard

STATE = "reshuffle"
"""The record with the sha256 of mapped folders, by their stamps, in the state that Flower keeps at a node."""
SECRETS = "reshuffle secure"
"""The record with the secrets of a secure sum. Flower keeps a node's state in memory, and does not send it."""


def client_app(loss: Loss | None = None) -> ClientApp:
    """A ClientApp that answers for the site that its node configuration describes.

    ``loss`` is one of your own in place of the run configuration's; give the same to ``server_app``.
    """
    with extra("flower", "flwr", "a ClientApp"):
        from flwr.clientapp import ClientApp

    app = ClientApp()

    def answer(message: Message, context: Context) -> Message:
        return answered(message, context, loss)

    app.train()(answer)
    app.query()(answer)
    return app


def answered(message: Message, context: Context, loss: Loss | None = None) -> Message:
    """The reply to a message. Flower starts a new process for each; it keeps ``context.state`` while the node runs."""
    from flwr.app import ConfigRecord, Message, RecordDict

    content = message.content
    node = context.node_config
    if get_record(content, "task").get("kind") == WHO:
        content = RecordDict()
        add_record(content, "who", _introduced(node, context.run_config))
        return Message(content, reply_to=message)
    task = task_of(content)
    try:
        settings = RunSettings.of(context.run_config)
        known, site = _kept(context, STATE), site_of(node, settings)
        guard = _guard(task, site, settings, context)
        noise = kept_noise(str(site.state), task) if settings.privacy else RepeatedNoise()
        model = settings.model(loss)
        host = SiteHost(task.clients, [site], model, __version__, known, guard, noise)
        (answer,) = host.work(task)
        context.state[STATE] = ConfigRecord(dict(known))
        if guard is not None:
            context.state[SECRETS] = ConfigRecord({"state": guard.state()})
    except InputError as error:
        answer = Failure(task.clients[0], told(error, *(node.get(key) for key in PATHS)))
    return Message(answer_content(answer), reply_to=message)


def _kept(context: Context, name: str) -> dict[str, str]:
    """The texts that an earlier message of the run has left at the node."""
    record: Any = context.state.config_records.get(name, {})
    return {str(key): str(text) for key, text in record.items()}


def _guard(task: Task, site: Site, settings: RunSettings, context: Context) -> Guard | None:
    """The guard of secure sums, with the secrets of the attempt in progress, which the node holds in its memory."""
    secure = settings.made_secure()
    if secure is None:
        return None
    guard = guard_of(secure, {task.clients[0]: site})
    kept = _kept(context, SECRETS)
    if "state" in kept:
        guard.restore(kept["state"])
    return guard


def _introduced(node: Any, config: Mapping[str, Any]) -> dict[str, str | int]:
    """The introduction of a node before the handshake: its site, whether it has held-out rows, and how it counts columns."""
    told: dict[str, str | int] = {"site": str(node.get("site", "")), "version": __version__}
    told |= {"test": 0, "first": 0}
    # The handshake reports an error by its name, also for a setting that is unknown here.
    with suppress(InputError):
        settings = RunSettings.of(config)
        told["site"] = name_of(node, settings)
        site = site_of(node, settings)
        told |= {"test": int(site.test is not None), "first": site.first_index}
    return told
