"""
Clients with one label each
===========================

A federation in which each client has seen one class alone is the hardest split: every client's own minimum is far
from the common one. Methods that only average local passes stop at a wrong point; the exact one does not.
"""

import matplotlib.pyplot as plt
import numpy as np

import reshuffle as rs

X, y = rs.datasets.breast_cancer()
penalty = rs.penalties.ElasticNet(l1=4e-3, l2=6e-3)
problem = rs.Problem(X, y, penalty=penalty)
clients = rs.federated.split(problem, clients=8, by="label", seed=0)
print(clients)

# %%
# Each round every client makes a pass over its own rows, and the server averages and takes the prox. The runs are
# the same to the last bit with ``engine="ray"``.
rounds = 60
runs = {
    "ExactFedRR": rs.ExactFedRR(rounds=rounds, engine="threads", seed=0).solve(clients),
    "FedRR": rs.FedRR(step=rs.steps.InverseTime(), rounds=rounds, seed=0).solve(clients),
    "LocalSGD": rs.LocalSGD(step=rs.steps.InverseTime(), rounds=rounds, seed=0).solve(clients),
}
pooled = rs.ExactProxRR(tol=1e-13).solve(problem)
for name, run in runs.items():
    wrong = np.linalg.norm(run.x - pooled.x) / np.linalg.norm(pooled.x)
    print(f"{name:<11} ends {wrong:.1e} (relative) from the model of the pooled data")

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
rs.plotting.plot_split(clients, ax=left)
rs.plotting.plot_gap(runs, pooled.trace["objective"][-1], ax=right)
right.set_xlabel("rounds")
right.legend(frameon=False)
