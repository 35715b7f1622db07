"""`python -m nezha.aggregator`: the command `nezha aggregator`, for who starts it as a child."""

from nezha.cli.aggregator import app

app(prog_name="nezha aggregator")
