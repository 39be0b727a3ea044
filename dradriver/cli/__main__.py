"""`python -m dradriver.cli`: the command where its script is not on the path."""

from dradriver.cli import main

main(prog_name="dradriver")
