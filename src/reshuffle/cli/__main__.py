"""``python -m reshuffle.cli``."""

from reshuffle.cli import main

main(prog_name="reshuffle")
