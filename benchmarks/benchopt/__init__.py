"""Solvers for the benchmarks of benchopt: a file is copied into ``solvers/`` of the benchmark that its docstring names."""
