"""The training bench behind `nezha bench train`.

spec.py holds the records that travel between processes, profile.py counts operations by size,
steps.py needs torch and runs in the ranks (worker.py), session.py builds the labs and decides what
runs where, output.py prints.
"""
