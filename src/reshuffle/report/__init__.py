"""Reports: each is one HTML file that needs no other file, no network and no script."""

from reshuffle.report.compare import compare_page
from reshuffle.report.federated import federated_page
from reshuffle.report.fit import fit_page
from reshuffle.report.held_out import HeldOut, held_out_numbers
from reshuffle.report.path import path_page

__all__ = ["HeldOut", "compare_page", "federated_page", "fit_page", "held_out_numbers", "path_page"]
