"""One small problem of each kind that the image is to solve: what is compiled for it is kept in NUMBA_CACHE_DIR."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

import reshuffle as rs

X, y = rs.datasets.breast_cancer()
for rows in (X, sp.csr_matrix(X)):
    for penalty in ("l1", "l2", "elasticnet"):
        rs.RRClassifier(penalty=penalty).fit(rows, y)
        rs.RRRegressor(penalty=penalty).fit(rows, np.asarray(X)[:, 0])
