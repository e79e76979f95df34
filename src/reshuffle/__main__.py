"""``python -m reshuffle`` is the command ``reshuffle``."""

from reshuffle.cli import main

if __name__ == "__main__":
    main(prog_name="reshuffle")
