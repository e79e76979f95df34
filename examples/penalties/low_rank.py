"""
A multinomial model of low rank
===============================

A multinomial model of ten digits has a matrix of coefficients, 64 pixels by 10 classes. The nuclear norm asks for a
low rank: all ten classes are then told apart in a few directions of the pixels, which can be looked at.

    ψ(x) = strength · Σ_k σ_k(x)

What one would do today is to fit the whole matrix with a ridge and to keep its first singular directions, or to take those of
linear discriminant analysis. Each way gives directions; a small model is fitted in them, and the test set judges.
"""

import time

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

import reshuffle as rs

X, y = load_digits(return_X_y=True)
X = X / 16.0
order = np.random.default_rng(0).permutation(len(y))
train, test = order[:900], order[900:]
loss = rs.losses.Multinomial()


def errors(directions):
    """Errors on the test set of a model in these directions of the pixels."""
    seen = np.ascontiguousarray(X @ directions)
    seen /= seen[train].std(axis=0)
    problem = rs.Problem(seen[train], y[train], loss, ridge=1e-3, fit_intercept=True)
    x = rs.ExactProxRR(tol=1e-4).solve(problem).x
    return float(np.mean(np.argmax(seen[test] @ x[:-1] + x[-1], axis=1) != y[test]))


# %%
# Strengths from strong to weak, each fit starting at the last one; the strongest of each rank counts.

low, x = {}, None
for strength in np.geomspace(0.35, 0.02, 14):
    penalty = rs.penalties.NuclearNorm(strength)
    problem = rs.Problem(X[train], y[train], loss, penalty, fit_intercept=True)
    x = rs.ExactProxRR(tol=1e-4).solve(problem, x).x
    left, sigma, _ = np.linalg.svd(x[:-1], full_matrices=False)
    rank = int(np.count_nonzero(sigma > 1e-6))
    if 0 < rank <= 9:
        low.setdefault(rank, left[:, :rank])

whole = rs.Problem(X[train], y[train], loss, ridge=1e-3, fit_intercept=True)
full = np.linalg.svd(rs.ExactProxRR(tol=1e-4).solve(whole).x[:-1], full_matrices=False)[0]
known = X.std(axis=0) > 0  # some pixels are always white
analysis = LinearDiscriminantAnalysis(solver="eigen", shrinkage=1e-3).fit(
    X[train][:, known], y[train]
)
discriminants = np.zeros((64, 9))
discriminants[known] = analysis.scalings_[:, :9]

found = {
    "nuclear norm": {rank: errors(directions) for rank, directions in sorted(low.items())},
    "ridge, cut off": {rank: errors(full[:, :rank]) for rank in range(1, 10)},
    "discriminant analysis": {rank: errors(discriminants[:, :rank]) for rank in range(1, 10)},
}
for name, by_rank in found.items():
    print(f"{name:<22}", ", ".join(f"{rank}: {e:.1%}" for rank, e in by_rank.items()))

# %%
# The time of a fit, beside FISTA's to the same accuracy: one prox is a decomposition.

problem = rs.Problem(X[train], y[train], loss, rs.penalties.NuclearNorm(0.05), fit_intercept=True)
for solver in (rs.ExactProxRR(tol=1e-5), rs.FISTA(tol=1e-5)):
    solver.solve(problem)
    clock = time.process_time()
    trace = solver.solve(problem).trace
    spent = time.process_time() - clock
    print(f"{type(solver).__name__}: {1e3 * spent:.0f} ms, {trace['prox_evals'][-1]:.0f} proxes")

# %%
# Errors by rank, and the test digits in the first two directions of the nuclear norm. It finds its rank by itself, by one
# convex problem; but digits are not of low rank: from four directions on, those of a ridge that is cut off and fitted again
# are better, and all nine are best. For a model that should be accurate and nothing else, the ridge is the one to take here.

fig, (left_ax, right_ax) = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
for name, by_rank in found.items():
    left_ax.plot(list(by_rank), list(by_rank.values()), marker="o", label=name)
left_ax.set(xlabel="rank", ylabel="errors on the test set", yscale="log")
left_ax.legend()
first = low[min(rank for rank in low if rank >= 2)]
places = X[test] @ first[:, :2]
for digit in range(10):
    here, colour = places[y[test] == digit], f"C{digit}"
    right_ax.scatter(*here.T, s=5, alpha=0.4, color=colour)
    style = {"fontsize": 17, "weight": "bold", "ha": "center", "va": "center"}
    right_ax.text(*np.median(here, axis=0), str(digit), color=colour, **style)
right_ax.set(xlabel="first direction", ylabel="second direction")
plt.show()
