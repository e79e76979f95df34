"""
Which words tell two subjects apart
===================================

Is a function about linear algebra or about statistics? The texts are the docstrings of numpy and scipy, which are
on every machine that has this package. A path of ℓ1 penalties, from a strength that leaves out every word to weak ones,
shows which words enter first; cross-validation says where to stop.
"""

import importlib
import inspect

import matplotlib.pyplot as plt
import numpy as np
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS, TfidfVectorizer
from sklearn.model_selection import train_test_split

import reshuffle as rs

ALGEBRA = ("numpy.linalg", "scipy.linalg", "scipy.linalg.lapack", "scipy.sparse.linalg")
STATISTICS = ("scipy.stats", "scipy.stats.mstats", "scipy.stats.qmc", "numpy.random")


def texts(modules):
    """The docstrings of what is public in these modules, and of the methods of its classes, each once."""
    found = {}
    for module in map(importlib.import_module, modules):
        for name in getattr(module, "__all__", None) or dir(module):
            part = getattr(module, name, None)
            for each in (part, *(vars(part).values() if inspect.isclass(part) else ())):
                doc = inspect.getdoc(each) if callable(each) else None
                if doc and len(doc.split()) > 20:
                    found[doc] = None
    return list(found)


algebra, statistics = texts(ALGEBRA), texts(STATISTICS)
labels = np.repeat(["algebra", "statistics"], [len(algebra), len(statistics)])
train, test, y, y_test = train_test_split(
    [*algebra, *statistics], labels, test_size=0.3, random_state=0, stratify=labels
)

# %%
# A bag of words, as sparse rows. The names of the modules would give the answer away.
ignored = [*ENGLISH_STOP_WORDS, "numpy", "scipy", "linalg", "stats", "lapack", "mstats", "qmc"]
words = TfidfVectorizer(min_df=5, sublinear_tf=True, token_pattern=r"[a-z]{3,}", stop_words=ignored)
X, X_test = words.fit_transform(train), words.transform(test)
print(f"{X.shape[0]:,} texts, {X.shape[1]:,} words, {X.nnz / X.shape[0]:.0f} of them in a text")

# %%
# Forty strengths on each of five folds and on all texts, each model started from the last. ``rule="1se"`` takes the
# sparsest model whose loss on held-out texts is within a standard error of the lowest.
model = rs.RRClassifierCV(penalty="l1", lambdas=40, smallest=1e-2, rule="1se").fit(X, y)
used = np.flatnonzero(model.coef_[0])
print(
    f"λ = {model.lambda_:.2g}: {used.size} words, {model.score(X_test, y_test):.1%} of new texts right"
)

figure, (left, right) = plt.subplots(
    1, 2, figsize=(11, 4), layout="constrained", width_ratios=(1.5, 1)
)
names = words.get_feature_names_out()
rs.plotting.plot_path(model.path_, names=names, largest=12, mark=model.lambda_, ax=left)
left.set_title("statistics above, algebra below")
mean, spread = model.cv_losses_.mean(axis=1), model.cv_losses_.std(axis=1, ddof=1) / np.sqrt(5)
right.errorbar(model.lambdas_, mean, spread, color=rs.plotting.COLOURS[0], capsize=2)
right.axvline(model.lambda_, color="0.3", lw=1.0, ls=":")
right.set_xscale("log")
right.invert_xaxis()
right.set_xlabel("λ")
right.set_ylabel("mean loss of held-out texts")
right.grid(alpha=0.3)

# %%
# The certificates of the whole path: every model is proved to be within ``tol`` of its minimum.
print(f"worst certificate: {max(c.value for c in model.path_.certificates):.1e}")
