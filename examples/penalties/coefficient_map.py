"""
A map of coefficients: total variation on pixels
================================================

Two digits, 3 and 8, on 16 × 16 pixels with a lot of noise, and only 80 of them to learn from. Neighbouring pixels show the
same stroke of the pen, which neither ℓ1 nor a ridge knows. Total variation does:

    ψ(x) = strength · Σ (\\|x_{r+1,c} - x_{r,c}\\| + \\|x_{r,c+1} - x_{r,c}\\|) + l1·‖x‖₁

makes the map of coefficients piecewise constant, so that noise is averaged over each piece.
"""

import time

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

import reshuffle as rs

digits, labels = load_digits(return_X_y=True)
kept = (labels == 3) | (labels == 8)
y = np.where(labels[kept] == 3, 1.0, -1.0)
rng = np.random.default_rng(0)
clean = np.kron(digits[kept].reshape(-1, 8, 8) / 16.0, np.ones((2, 2))).reshape(y.size, -1)
X = clean + 0.8 * rng.standard_normal(clean.shape)

# %%
# Each penalty along its strengths, on two random choices of 80 digits; the other 277 judge.

KINDS = {
    "total variation": (
        lambda s: {"penalty": rs.penalties.TotalVariation2D(s, image=(16, 16), l1=0.1 * s)},
        np.geomspace(0.06, 0.005, 4),
    ),
    "ℓ1": (lambda s: {"penalty": rs.penalties.L1(s)}, np.geomspace(0.12, 0.006, 5)),
    "ridge": (lambda s: {"ridge": s}, np.geomspace(3.0, 0.01, 5)),
}
SPLITS = 2
fast = rs.ExactProxRR(tol=1e-2, steps_per_prox=80)  # 80 rows cost less than one prox
losses = {name: np.zeros(strengths.size) for name, (_, strengths) in KINDS.items()}
errors = {name: np.zeros(strengths.size) for name, (_, strengths) in KINDS.items()}
for _ in range(SPLITS):
    order = rng.permutation(y.size)
    train, test = order[:80], order[80:]
    for name, (kind, strengths) in KINDS.items():
        x = None
        for k, strength in enumerate(strengths):
            problem = rs.Problem(X[train], y[train], fit_intercept=True, **kind(strength))
            x = fast.solve(problem, x).x
            margins = y[test] * (X[test] @ x[:-1] + x[-1])
            losses[name][k] += np.logaddexp(0.0, -margins).mean() / SPLITS
            errors[name][k] += (margins <= 0).mean() / SPLITS
for name in KINDS:
    k = int(losses[name].argmin())
    print(f"{name:<16} test loss {losses[name][k]:.3f}, errors {errors[name][k]:.1%}")

# %%
# The time of a fit. The prox is exact (maximum flows); as there are so few rows, it is all that costs.

best = {name: strengths[int(losses[name].argmin())] for name, (_, strengths) in KINDS.items()}
problem = rs.Problem(
    X[train], y[train], fit_intercept=True, **KINDS["total variation"][0](best["total variation"])
)
for solver in (fast, rs.FISTA(tol=1e-2)):
    clock = time.process_time()
    trace = solver.solve(problem).trace
    spent = time.process_time() - clock
    print(f"{type(solver).__name__}: {spent:.2f} s, {trace['prox_evals'][-1]:.0f} proxes")

# %%
# What is to be told apart, one digit of each kind as it is given, and the three maps. With 80 rows FISTA is as fast: the prox
# is all that costs, and both take about as many. The page on penalties has sets where a pass over the rows counts.

fig, axes = plt.subplots(1, 6, figsize=(12, 2.6), layout="constrained")
difference = clean[y > 0].mean(axis=0) - clean[y < 0].mean(axis=0)
axes[0].imshow(difference.reshape(16, 16), cmap="RdBu", vmin=-1, vmax=1)
axes[0].set_title("mean 3 less mean 8")
for ax, sign in zip(axes[1:3], (1.0, -1.0), strict=True):
    ax.imshow(X[y == sign][0].reshape(16, 16), cmap="gray_r")
    ax.set_title("a 3" if sign > 0 else "an 8")
for ax, (name, (kind, _)) in zip(axes[3:], KINDS.items(), strict=True):
    problem = rs.Problem(X[train], y[train], fit_intercept=True, **kind(best[name]))
    x = fast.solve(problem).x[:-1]
    largest = np.abs(x).max()
    ax.imshow(x.reshape(16, 16), cmap="RdBu", vmin=-largest, vmax=largest)
    ax.set_title(f"{name}\nloss {losses[name].min():.3f}")
for ax in axes:
    ax.set_axis_off()
plt.show()
