"""
A penalty whose prox is costly
==============================

Total variation makes a map of coefficients piecewise constant. Its prox is a sequence of maximum flows and costs as much as
hundreds of gradients, so it matters how often it is taken. This is what one prox for many gradient steps is made for.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

import reshuffle as rs

digits = load_digits()
chosen = np.isin(digits.target, (3, 8))
X, y = digits.data[chosen] / 16.0, np.where(digits.target[chosen] == 3, 1.0, -1.0)

# %%
# The digits 3 and 8 are told apart by one number per pixel: with a ridge, and with total variation.
smooth = rs.penalties.TotalVariation2D(0.002, image=(8, 8), l1=0.001)
maps = {
    "ridge": rs.RRClassifier(l2=0.002).fit(X, y),
    "total variation": rs.RRClassifier(penalty=smooth, tol=1e-7).fit(X, y),
}
for name, model in maps.items():
    pieces = np.unique(model.coef_.round(6)).size
    print(f"{name}: {pieces} different values, {model.score(X, y):.1%} right, {model.certificate_}")

# %%
# How many proxes it takes to get near the minimum.
problem = rs.Problem(X, y, penalty=smooth, fit_intercept=True)
seldom = {"steps_per_prox": problem.n, "eval_every": 1}
runs = {
    "ExactProxRR": rs.ExactProxRR(tol=1e-7, eval_every=1).solve(problem),
    "ExactProxRR, a prox per epoch": rs.ExactProxRR(tol=1e-7, **seldom).solve(problem),
    "FISTA, a prox per pass": rs.FISTA(tol=1e-7).solve(problem),
    "ProxSGD, a prox per sample": rs.ProxSGD(
        step=rs.steps.InverseTime(rate=1.0), epochs=8, seed=0
    ).solve(problem),
}

figure, axes = plt.subplots(1, 3, figsize=(11, 3.4), layout="constrained", width_ratios=(1, 1, 1.7))
for ax, (name, model) in zip(axes, maps.items(), strict=False):
    image = model.coef_.reshape(8, 8)
    most = np.abs(image).max()
    ax.imshow(image, cmap="PuOr", vmin=-most, vmax=most)
    ax.set_title(name)
    ax.set_axis_off()
minimum = min(run.trace["objective"].min() for run in runs.values())
rs.plotting.plot_gap(runs, minimum, "prox_evals", ax=axes[2])
axes[2].set_ylim(1e-9, 1)
axes[2].legend(frameon=False, fontsize="small")
