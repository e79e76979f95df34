"""
Columns that nobody has scaled
==============================

The columns of the breast-cancer data range from 0.001 to 4,000. First-order methods do better on scaled columns, but scaling
changes the question: a penalty on scaled columns is another penalty. The exact method ends with Newton steps, which do not depend on
the scale of a column.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression

import reshuffle as rs

X, y = load_breast_cancer(return_X_y=True)
n = len(y)
print(f"largest values of the columns: {X.max(axis=0).min():.2g} to {X.max(axis=0).max():.4g}")

# %%
# Ours: :math:`\frac1n\sum_i \ell(a_i^\top w + b, y_i) + \lambda\|w\|_1` with λ = 1/n, which is ``C=1`` of
# scikit-learn.
model = rs.RRClassifier(penalty="l1", l1=1 / n).fit(X, y)
print(model.summary(largest=5))

# %%
# scikit-learn's ``saga`` minimises the same function, for as many passes as it is given. (Its ``liblinear`` penalises
# the intercept, and ``lbfgs`` has no ℓ1.)
P = rs.Problem(X, y, penalty=rs.penalties.L1(1 / n), fit_intercept=True).objective
passes = [1, 3, 10, 30, 100, 300, 1000, 3000]
gaps = []
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it warns each time that it has not converged, and rightly
    for most in passes:
        saga = LogisticRegression(l1_ratio=1.0, C=1.0, solver="saga", tol=0.0, max_iter=most)
        saga.fit(X, y)
        gaps.append(P(np.append(saga.coef_, saga.intercept_)) - model.objective_)
print(f"after {passes[-1]:,} passes saga is {gaps[-1]:.2g} above the minimum")
print(f"and uses {np.count_nonzero(saga.coef_)} features where the minimiser has", end=" ")
print(np.count_nonzero(model.coef_))

# %%
# An iteration of ours is a Newton step, of which nine are enough.
steps = range(1, model.n_iter_)
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # each of these is stopped too early
    ours = [rs.RRClassifier(penalty="l1", l1=1 / n, max_iter=k).fit(X, y).objective_ for k in steps]
figure, ax = plt.subplots(figsize=(6, 3.6), layout="constrained")
blue, orange = rs.plotting.COLOURS[:2]
ax.loglog(passes, gaps, "s--", color=orange, label="saga, passes over the data")
ax.loglog(
    steps, np.array(ours) - model.objective_, "o-", color=blue, label="RRClassifier, iterations"
)
ax.set_ylabel("P(x) - P*")
ax.set_xlabel("passes or iterations")
ax.grid(alpha=0.3)
ax.legend(frameon=False)
