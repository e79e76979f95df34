"""
Three sites, one command each
=============================

Three clinics train one model, and no row of a table leaves a clinic. Flower carries the messages: a SuperLink at the
server, a SuperNode at each clinic. :doc:`/flower` has the whole set-up, with keys.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

import reshuffle as rs

place = Path(tempfile.mkdtemp())
names = ("oslo", "bergen", "tromso")
X, y = rs.datasets.breast_cancer()
order = np.argsort(X[:, 0])  # each clinic sees another range of a feature
for name, rows in zip(names, np.array_split(order, 3), strict=True):
    np.savez(place / f"{name}.npz", X=X[rows[::2]], y=y[rows[::2]])
    np.savez(place / f"{name}-test.npz", X=X[rows[1::2]], y=y[rows[1::2]])

# %%
# A clinic starts one process, which says where its table lies and connects to the server from the inside (``--root-certificates``
# and ``--auth-supernode-private-key`` name the files of ``reshuffle flower certs``):
#
# .. code-block:: sh
#
#     flower-supernode --superlink 10.0.0.1:8000 --root-certificates ca.crt --auth-supernode-private-key oslo \
#         --host 127.0.0.1 --node-config 'site="oslo" data="/data/oslo.npz" test="/data/oslo-test.npz"'
#
# The server writes an app, once, and runs it:
#
# .. code-block:: sh
#
#     reshuffle flower new study --names oslo,bergen,tromso
#     flwr run study hub --stream --run-config 'penalty="L2(0.01)"'
#
# The model is the same to the last bit on threads of one process, which is what this page ran:
sites = rs.federated.Sites(
    [rs.federated.Site(place / f"{n}.npz", n, test=place / f"{n}-test.npz") for n in names],
    penalty=rs.penalties.L2(0.01),
)
result = rs.ExactFedRR(tol=1e-6, seed=0).solve(sites)
print(result.message, f"after {result.epoch} rounds")
print(result.held_out)

# %%
# The picture shows everything that travelled, with its total size. Before the first round a clinic describes its data: the
# number of its rows, the form of the table, the mean and the mean square of each column, and constants of smoothness. In each
# round the server sends the model x, the clinic's control variate h and the settings of the round. The clinic answers with the
# model in which its local passes end, and with the mean loss and gradient of its rows at x, from which the server computes how
# far x is from the minimum. At the end a clinic says how good the model is on its held-out rows. The size of all this depends
# on the number of features and of rounds, and not on the number of rows.
figure, ax = plt.subplots(figsize=(10, 4.8), layout="constrained")
ax.set(xlim=(0, 12), ylim=(0, 6.2))
ax.axis("off")
DOWN = "in each round:\nmodel x,\ncontrol variate h,\nsettings"
UP = "once: row count,\ncolumns, moments\n\nin each round:\nlocal model,\nmean loss, gradient\n\nonce: quality"


def box(x, y, width, text, colour):
    ax.add_patch(
        FancyBboxPatch(
            (x - width / 2, y - 0.55), width, 1.1, boxstyle="round,pad=0.1", fc=colour, ec="0.4"
        )
    )
    ax.text(x, y, text, ha="center", va="center", fontsize=10)


box(
    6,
    5.3,
    11.4,
    "server: SuperLink, ServerApp\nx, the prox, checkpoints, model.npz, report.html",
    "#dbe9f6",
)
for middle, part, name in zip((1.8, 6, 10.2), result.tally.parts, names, strict=True):
    box(middle, 0.8, 3, f"{name}: SuperNode\n{part.samples} rows stay here", "#e5f2e0")
    arrows = (
        (-0.12, 4.6, 1.5, "right", f"{DOWN}\n\n{part.down / 1e3:.0f} kB in all"),
        (0.12, 1.5, 4.6, "left", f"{UP}\n\n{part.up / 1e3:.0f} kB in all"),
    )
    for shift, begin, end, side, told in arrows:
        ends = (middle + shift, begin), (middle + shift, end)
        ax.add_patch(FancyArrowPatch(*ends, arrowstyle="-|>", mutation_scale=14, color="0.35"))
        ax.text(middle + 2 * shift, 3.05, told, ha=side, va="center", fontsize=8.5, color="0.25")
ax.set_title(f"Who sends what in a run of {result.epoch} rounds")
