"""Run the command with `python -m dradriver.cli` if its script is not on the path."""

from dradriver.cli import main

main(prog_name="dradriver")
