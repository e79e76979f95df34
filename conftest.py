"""PyTorch is an extra: where it is not installed, the modules that need it are not read for doctests."""

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("torch") else ["src/reshuffle/torch/*"]
