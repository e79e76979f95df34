"""benchmark_group_lasso: min over β of ‖y - Xβ‖²/(2n) + λ(τ‖β‖₁ + (1 - τ) Σ_g ‖β_g‖₂); the group lasso is τ = 0."""

import warnings

import numpy as np
from benchopt import BaseSolver
from sklearn.exceptions import ConvergenceWarning

import reshuffle as rs


class Solver(BaseSolver):
    """ExactProxRR: shuffled epochs with control variates, and Newton steps."""

    name = "reshuffle"
    sampling_strategy = "iteration"

    def set_objective(self, X, y, lmbd, groups, grp_indices, grp_ptr, tau=0.0):
        warnings.filterwarnings("ignore", category=ConvergenceWarning)
        members = np.split(np.asarray(grp_indices), grp_ptr[1:-1])
        labels = np.empty(X.shape[1], dtype=np.int64)
        for number, group in enumerate(members):
            labels[group] = number
        norms = {"groups": labels, "weights": np.ones(len(members))}
        penalty = rs.penalties.SparseGroupLasso(tau * lmbd, (1 - tau) * lmbd, **norms)
        self.problem = rs.Problem(X, y, rs.losses.Squared(), penalty)
        self.beta = np.zeros(X.shape[1])

    def run(self, n_iter):
        if n_iter > 0:
            self.beta = rs.ExactProxRR(epochs=n_iter, tol=1e-14).solve(self.problem).x

    def get_result(self):
        return {"beta": self.beta}
