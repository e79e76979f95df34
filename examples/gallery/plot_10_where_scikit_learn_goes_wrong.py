"""
Where scikit-learn goes wrong
=============================

Four known troubles of scikit-learn's stochastic solvers, run with the version that is printed below, each beside the
minimiser. All but one end without a warning. Where a later version has mended one, the lines below will say so.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
import sklearn
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.preprocessing import StandardScaler

import reshuffle as rs
from reshuffle.estimators import strengths_from_alpha, strengths_from_C

print("scikit-learn", sklearn.__version__)


def fitted(model, *data, **more):
    """The model, fitted, and whether it warned that it had not converged."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model.fit(*data, **more)
    return model, any(issubclass(w.category, ConvergenceWarning) for w in said)


# %%
# **Stuck at zero, and 'converged'** (`#13021 <https://github.com/scikit-learn/scikit-learn/issues/13021>`_). Where the
# rows that the first pass of ``saga`` happens to draw leave the coefficient at zero, it takes that for the end.
X, y = np.array([[-1.0], [0.0], [1.0]]), [0, 1, 1]
right = rs.RRClassifier(penalty="l1", l1=1 / 30, fit_intercept=False).fit(X, y).coef_[0, 0]
for seed in range(4):
    saga = LogisticRegression(
        solver="saga", l1_ratio=1.0, C=10.0, fit_intercept=False, max_iter=1000, random_state=seed
    )
    model, warned = fitted(saga, X, y)
    print(
        f"random_state={seed}: {model.coef_[0, 0]:.4f} after {model.n_iter_[0]} passes, "
        f"{'with' if warned else 'without'} a warning; the minimiser is {right:.4f}"
    )

# %%
# **Wrong along the ℓ1 path** (`#15903 <https://github.com/scikit-learn/scikit-learn/issues/15903>`_). Two kinds of
# iris, four columns as they are. ``saga`` stops when its coefficients change little, which they also do far from the
# minimum; one feature is enough at every strength, and it ends with up to four.
X, y = load_iris(return_X_y=True)
X, y = X[y < 2], y[y < 2]
path = rs.rr_path(X, y, lambdas=12, smallest=1e-4)
saga = LogisticRegression(solver="saga", l1_ratio=1.0, max_iter=10_000, random_state=0)
coefs, above, warned = [], [], 0
for strength, minimum in zip(path.lambdas, path.objectives, strict=True):
    model, said = fitted(saga.set_params(C=1 / (strength * len(y))), X, y)
    P = rs.Problem(X, y, penalty=rs.penalties.L1(strength), fit_intercept=True).objective
    coefs.append(model.coef_[0])
    above.append(P(np.append(model.coef_, model.intercept_)) / minimum - 1)
    warned += said
print(
    f"saga ends up to {max(above):.0%} above the minimum, with {warned} warnings on {len(path)} fits"
)

figure, axes = plt.subplots(1, 2, figsize=(9, 3.4), sharey=True, layout="constrained")
for ax, title, lines in zip(
    axes, ("at the minimum", "where saga stops"), (path.coefs[:, 0], np.array(coefs)), strict=True
):
    for j, name in enumerate(load_iris().feature_names):
        style = {"color": rs.plotting.COLOURS[j], "ls": rs.plotting.LINES[j]}
        ax.semilogx(path.lambdas, lines[:, j], label=name, **style)
    ax.set(title=title, xlabel="λ")
    ax.grid(alpha=0.3)
axes[0].invert_xaxis()
axes[1].invert_xaxis()
axes[0].set_ylabel("coefficients")
axes[0].legend(frameon=False, fontsize="small")

# %%
# **Sample weights break its step** (`#31536 <https://github.com/scikit-learn/scikit-learn/issues/31536>`_). All
# weights times k and C divided by k is the same problem. The step of ``saga`` does not know of the weights: too short
# for small ones, and too long, so that it does not converge at all, for large ones. (This one does warn.)
X, y = load_breast_cancer(return_X_y=True)
X, n = StandardScaler().fit_transform(X), len(y)
exact = rs.RRClassifier(penalty="elasticnet", **strengths_from_C(1.0, n)).fit(X, y).coef_
factors = np.array([0.01, 0.1, 1.0, 10.0, 100.0])
wrong = {"saga, 1,000 passes": [], "RRClassifier": []}
for k in factors:
    weights = np.full(n, k)
    saga = LogisticRegression(solver="saga", C=1 / k, tol=1e-6, max_iter=1000, random_state=0)
    ours = rs.RRClassifier(penalty="elasticnet", **strengths_from_C(1 / k, weights))
    for name, model in zip(wrong, (saga, ours), strict=True):
        model, said = fitted(model, X, y, sample_weight=weights)
        wrong[name].append(np.abs(model.coef_ - exact).max())
        print(
            f"weights {k:<6g} {name:<20} off by {wrong[name][-1]:.1e}{', and warns' if said else ''}"
        )

figure, ax = plt.subplots(figsize=(5.5, 3.2), layout="constrained")
for k, (name, values) in enumerate(wrong.items()):
    style = {"color": rs.plotting.COLOURS[1 - k], "marker": rs.plotting.MARKERS[k]}
    ax.loglog(factors, np.maximum(values, 1e-12), label=name, **style)
ax.set(xlabel="weight of every row", ylabel="largest error of a coefficient")
ax.grid(alpha=0.3)
ax.legend(frameon=False)

# %%
# **An elastic net that is not the minimiser** (`#11646 <https://github.com/scikit-learn/scikit-learn/pull/11646>`_).
# ``SGDClassifier`` stops when its training loss no longer falls; what it returns depends on the seed, and nothing says
# how far from the minimum it is.
strengths = strengths_from_alpha(0.01, l1_ratio=0.5)
model = rs.RRClassifier(penalty="elasticnet", **strengths).fit(X, y)
P = rs.Problem(X, y, penalty=model.penalty_, fit_intercept=True).objective
print(f"minimum   {model.objective_:.6f}, {np.count_nonzero(model.coef_)} features")
for seed in range(3):
    sgd = SGDClassifier(
        loss="log_loss", penalty="elasticnet", alpha=0.01, l1_ratio=0.5, random_state=seed
    )
    sgd, _ = fitted(sgd, X, y)
    value = P(np.append(sgd.coef_, sgd.intercept_))
    print(
        f"SGD, seed {seed} {value:.6f}, {np.count_nonzero(sgd.coef_)} features, {sgd.n_iter_} epochs"
    )
