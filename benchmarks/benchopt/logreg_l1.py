"""benchmark_logreg_l1: min over β of Σ_i log(1 + exp(-y_i x_iᵀβ)) + λ‖β‖₁."""

import warnings

import numpy as np
from benchopt import BaseSolver
from sklearn.exceptions import ConvergenceWarning

import reshuffle as rs


class Solver(BaseSolver):
    """ExactProxRR: shuffled epochs with control variates, and Newton steps."""

    name = "reshuffle"
    sampling_strategy = "iteration"

    def set_objective(self, X, y, lmbd):
        warnings.filterwarnings("ignore", category=ConvergenceWarning)
        penalty = rs.penalties.L1(lmbd / X.shape[0])
        self.problem = rs.Problem(X, y, rs.losses.Logistic(), penalty)
        self.beta = np.zeros(X.shape[1])

    def run(self, n_iter):
        if n_iter > 0:
            self.beta = rs.ExactProxRR(epochs=n_iter, tol=1e-14).solve(self.problem).x

    def get_result(self):
        return {"beta": self.beta}
