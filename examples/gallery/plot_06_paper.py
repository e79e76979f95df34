"""
The paper's two figures, in small
=================================

``reshuffle reproduce all`` runs the figures of *Proximal and Federated Random Reshuffling* on the paper's data, with
ten seeds, and checks their claims. Here they are on data that come with scikit-learn, with three seeds: lines are
medians, bands go from the lowest to the highest.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

import reshuffle as rs

SEEDS = range(3)
step = rs.steps.InverseTime()


def draw(ax, k, name, runs, minimum, across):
    """The gaps of runs with different seeds."""
    gaps = np.array([run.trace["objective"] for run in runs]) - minimum
    style = {"color": rs.plotting.COLOURS[k], "ls": rs.plotting.LINES[k]}
    ax.plot(across, np.median(gaps, axis=0), label=name, lw=1.8, **style)
    ax.fill_between(across, gaps.min(axis=0), gaps.max(axis=0), alpha=0.2, lw=0, **style)


# %%
# **Figure 1.** A prox after each step, or one after each epoch: as a function of passes over the data the methods
# are alike, as a function of prox evaluations they are not. The loss is logistic, λ2 = L_f/n, and λ1 is weak enough
# to keep about half of the features, as in the paper.
X, y = rs.datasets.breast_cancer()
plain = rs.Problem(X, y)
l1 = rs.Problem(X, y, penalty=rs.penalties.L1(1.0)).lambda_max() / 128
problem = rs.Problem(X, y, penalty=rs.penalties.ElasticNet(l1, plain.smoothness.L_f / plain.n))
best = rs.ExactProxRR(tol=1e-13).solve(problem)
print(f"{np.count_nonzero(best.x)} of {best.x.size} features at the minimiser")
methods = {
    "ProxSGD": lambda seed: rs.ProxSGD(step=step, epochs=60, seed=seed),
    "RR (heuristic)": lambda seed: rs.ProxRR(step=step, prox="step", epochs=60, seed=seed),
    "ProxRR": lambda seed: rs.ProxRR(step=step, epochs=60, seed=seed),
}
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.6), sharey=True, layout="constrained")
for k, (name, method) in enumerate(methods.items()):
    runs = [method(seed).solve(problem) for seed in SEEDS]
    trace = runs[0].trace
    draw(left, k, name, runs, best.trace["objective"][-1], trace["gradients"] / problem.n)
    draw(right, k, name, runs, best.trace["objective"][-1], trace["prox_evals"] + 1)
    print(f"{name:<15} {trace['prox_evals'][-1]:>6.0f} prox evaluations")
right.set_xscale("log")
left.set(yscale="log", xlabel="passes over the data", ylabel="P(x) - P*")
right.set_xlabel("prox evaluations (+ 1)")
left.legend(frameon=False)

# %%
# **Figure 2.** FedRR against Local SGD: ten clients with rows dealt out at random, a round is a local pass. The
# question put to the digits: is it even?
X, y = load_digits(return_X_y=True)
X, y = X / 16.0, np.where(y % 2 == 0, 1.0, -1.0)
ridge = rs.Problem(X, y).smoothness.L_f / len(y)
pooled = rs.Problem(X, y, ridge=ridge)
clients = rs.federated.split(pooled, clients=10, seed=0)
minimum = rs.ExactProxRR(tol=1e-13).solve(pooled).trace["objective"][-1]
local = {"rounds": 60, "step": step}
methods = {
    "Local SGD": lambda seed: rs.LocalSGD(seed=seed, local_steps=len(y) // 10, **local),
    "FedRR": lambda seed: rs.FedRR(seed=seed, **local),
    "ExactFedRR": lambda seed: rs.ExactFedRR(seed=seed, rounds=60),
}
figure, ax = plt.subplots(figsize=(6, 3.6), layout="constrained")
for k, (name, method) in enumerate(methods.items()):
    runs = [method(seed).solve(clients) for seed in SEEDS]
    shortest = min(len(run.trace["objective"]) for run in runs)
    traces = [run.trace["objective"][:shortest] for run in runs]
    gaps = np.maximum(np.array(traces) - minimum, 1e-16)
    ax.plot(np.median(gaps, axis=0), label=name, color=rs.plotting.COLOURS[k], lw=1.8)
    ax.fill_between(range(shortest), gaps.min(axis=0), gaps.max(axis=0), alpha=0.2, lw=0)
    print(f"{name:<10} after {shortest - 1} rounds: {np.median(gaps[:, -1]):.1e} above the minimum")
ax.set(yscale="log", xlabel="rounds", ylabel="P(x) - P*")
ax.legend(frameon=False)
