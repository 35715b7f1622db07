"""`python -m nezha._aggregator`: the command `nezha aggregator`, for who starts it as a child."""

from nezha._cli.aggregator import app

app(prog_name="nezha aggregator")
