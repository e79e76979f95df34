"""
Groups that overlap: bands of a spectrum
========================================

A substance shows in bands of neighbouring wavelengths. Windows of ten wavelengths that overlap by half say so: the
penalty

    ψ(x) = strength · Σ_g √10·‖x_g‖₂

holds whole windows at zero, and what is left are bands. The spectra are simulated, so that the truth is known: 200 wavelengths, three
other substances in varying amounts, a drifting base line and noise; the substance in question has two bands. 80 spectra are there to learn
from. What one would do today is ℓ1 or a ridge (their minimisers are those of scikit-learn's ``LogisticRegression``), or the
same penalty in cvxpy.
"""

import time
from importlib.util import find_spec

import matplotlib.pyplot as plt
import numpy as np

import reshuffle as rs

WAVELENGTHS = np.arange(200.0)


def band(centre, width):
    """One band, of height 1."""
    return np.exp(-0.5 * ((WAVELENGTHS - centre) / width) ** 2)


OTHERS = np.array([band(40, 8), band(120, 12), band(165, 6)])
SUBSTANCE = band(80, 6) + 0.7 * band(145, 5)


def spectra(n, rng):
    """Spectra, and whether they have much (+1) or little (-1) of the substance."""
    y = np.where(rng.random(n) < 0.5, 1.0, -1.0)
    amount = 0.5 + 0.25 * y + 0.1 * rng.standard_normal(n)
    base = 0.3 * rng.standard_normal((n, 2)) @ [np.ones(200), WAVELENGTHS / 100 - 1]
    mixture = rng.lognormal(0.0, 0.4, (n, 3)) @ OTHERS + np.outer(amount, SUBSTANCE)
    return mixture + base + 0.5 * rng.standard_normal((n, 200)), y


groups = [list(range(k, k + 10)) for k in range(0, 191, 5)]

# %%
# The three penalties along their strengths, on six sets of 80 spectra; 2,000 others judge each.

KINDS = {
    "groups that overlap": (
        lambda s: {"penalty": rs.penalties.OverlappingGroupLasso(s, groups)},
        np.geomspace(0.05, 0.001, 8),
    ),
    "ℓ1": (lambda s: {"penalty": rs.penalties.L1(s)}, np.geomspace(0.15, 0.005, 8)),
    "ridge": (lambda s: {"ridge": s}, np.geomspace(3.0, 0.01, 8)),
}
SETS = 6
losses = {name: np.empty((SETS, 8)) for name in KINDS}
errors = {name: np.empty((SETS, 8)) for name in KINDS}
for number in range(SETS):
    rng = np.random.default_rng(number)
    (X, y), (X_test, y_test) = spectra(80, rng), spectra(2000, rng)
    mean, spread = X.mean(axis=0), X.std(axis=0)
    X, X_test = (X - mean) / spread, (X_test - mean) / spread
    for name, (kind, strengths) in KINDS.items():
        x = None
        for k, strength in enumerate(strengths):
            problem = rs.Problem(X, y, fit_intercept=True, **kind(strength))
            x = rs.ExactProxRR(tol=1e-3).solve(problem, x).x
            margins = y_test * (X_test @ x[:-1] + x[-1])
            losses[name][number, k] = np.logaddexp(0.0, -margins).mean()
            errors[name][number, k] = (margins <= 0).mean()

best = {name: int(losses[name].mean(axis=0).argmin()) for name in KINDS}
for name, k in best.items():
    loss, error = losses[name][:, k].mean(), errors[name][:, k].mean()
    print(f"{name:<20} test loss {loss:.3f}, errors {error:.1%}")
windows = losses["groups that overlap"][:, best["groups that overlap"]]
for other in ("ℓ1", "ridge"):
    better = int(np.sum(windows < losses[other][:, best[other]]))
    print(f"windows have a smaller loss than {other} in {better} of {SETS} sets")

# %%
# The time of one fit, and of the same problem stated in cvxpy, where it is installed. A run reports the inner
# iterations of its prox, and its certificate counts their error.


def fitted(name, tol):
    """The last set with the best strength."""
    kind, strengths = KINDS[name]
    problem = rs.Problem(X, y, fit_intercept=True, **kind(strengths[best[name]]))
    return problem, rs.ExactProxRR(tol=tol).solve(problem)


clock = time.process_time()
problem, result = fitted("groups that overlap", 1e-5)
spent, last = time.process_time() - clock, result.trace.last()
print(
    f"{1e3 * spent:.0f} ms, {last['prox_evals']:.0f} proxes, "
    f"{last['inner_iterations']:.0f} passes over the groups, P(x) = {last['objective']:.6f}"
)
if find_spec("cvxpy"):
    import cvxpy as cp

    v = cp.Variable(201)
    norms = sum(np.sqrt(10) * cp.norm(v[g]) for g in groups)
    logistic = cp.sum(cp.logistic(cp.multiply(-y, X @ v[:-1] + v[-1]))) / len(y)
    model = cp.Problem(cp.Minimize(logistic + problem.penalty.strength * norms))
    clock = time.process_time()
    model.solve(solver="CLARABEL")
    spent = time.process_time() - clock
    print(f"cvxpy with Clarabel: {1e3 * spent:.0f} ms, P(x) = {model.value:.6f}")

# %%
# The coefficients of the last set, beside the bands of the substance (grey). ℓ1 takes single wavelengths out of a band and
# so has the noise of a few, a ridge takes all and has the noise of all; windows average over the bands and leave the rest at zero, or
# nearly so where another substance has to be subtracted.

fig, axes = plt.subplots(1, 4, figsize=(12, 3.2), layout="constrained")
for ax, name in zip(axes, KINDS, strict=False):
    x = fitted(name, 1e-5)[1].x[:-1]
    ax.fill_between(WAVELENGTHS, SUBSTANCE * np.abs(x).max(), color="0.85")
    ax.plot(WAVELENGTHS, x, lw=1)
    ax.set(title=f"{name}: {np.count_nonzero(x)} of 200", xlabel="wavelength")
for name in KINDS:
    axes[3].plot(np.arange(1, 9), losses[name].mean(axis=0), marker="o", label=name)
axes[3].set(xlabel="strength, from strong to weak", title=f"test loss, mean of {SETS} sets")
axes[3].legend()
plt.show()
