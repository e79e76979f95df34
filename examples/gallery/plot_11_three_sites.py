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
# What travelled, from the handshake to the last question how good the model is. Its size depends on the number of features and of
# rounds, and not on the number of rows. The server sends the model x and the clinic's control variate h; the clinic
# answers with the model that its local passes end in, and with the mean loss and gradient of its rows at x, by which the server
# knows how far x is from the minimum.
figure, ax = plt.subplots(figsize=(9, 4.4), layout="constrained")
ax.set(xlim=(0, 12), ylim=(0, 6.2))
ax.axis("off")


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
        (-0.15, 4.6, 1.5, "right", f"model x,\nits own h\n{part.down / 1e3:.0f} kB"),
        (0.15, 1.5, 4.6, "left", f"local model,\nmean loss,\ngradient\n{part.up / 1e3:.0f} kB"),
    )
    for shift, begin, end, side, told in arrows:
        ends = (middle + shift, begin), (middle + shift, end)
        ax.add_patch(FancyArrowPatch(*ends, arrowstyle="-|>", mutation_scale=14, color="0.35"))
        ax.text(middle + 2 * shift, 3.05, told, ha=side, va="center", fontsize=9, color="0.25")
ax.set_title(f"who sends what, in {result.epoch} rounds together")
