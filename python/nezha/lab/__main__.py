"""`python -m nezha.lab`: the commands of `nezha lab`, also where the native module is missing."""

from nezha._cli.lab import app

app(prog_name="nezha lab")
