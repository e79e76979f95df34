"""benchmark_lasso: min over β of ½‖y - Xβ - c‖² + λ‖β‖₁, with an intercept c where it is asked for."""

import warnings

import numpy as np
from benchopt import BaseSolver
from scipy.sparse.linalg import LinearOperator
from sklearn.exceptions import ConvergenceWarning

import reshuffle as rs


class Solver(BaseSolver):
    """ExactProxRR: shuffled epochs with control variates, and Newton steps."""

    name = "reshuffle"
    sampling_strategy = "iteration"

    def skip(self, X, y, lmbd, fit_intercept):
        if isinstance(X, LinearOperator):
            return True, "reshuffle needs the entries of X"
        return False, None

    def set_objective(self, X, y, lmbd, fit_intercept):
        warnings.filterwarnings("ignore", category=ConvergenceWarning)
        penalty = rs.penalties.L1(lmbd / X.shape[0])
        self.problem = rs.Problem(X, y, rs.losses.Squared(), penalty, fit_intercept=fit_intercept)
        self.beta = np.zeros(X.shape[1] + fit_intercept)

    def run(self, n_iter):
        if n_iter > 0:
            self.beta = rs.ExactProxRR(epochs=n_iter, tol=1e-14).solve(self.problem).x

    def get_result(self):
        return {"beta": self.beta}
