"""Measured fault campaigns: many faults, every operation checked bit by bit, figures in a table.

    PYTHONPATH=tests python -m campaigns --form short|faults|soak [--only R1,R2] [--seed N]

Each campaign is one file (r01_kill.py ...): it breaks one thing often, in a lab of this machine's
own, and hands back samples; measure.py makes figures of them, report.py the table.
"""
