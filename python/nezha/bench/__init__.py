"""The benchmark behind `nezha bench`.

Nothing here imports the native module until a rank joins its world (worker.py), so the formulas,
the reference data and the reports also serve other libraries and machines without Nezha built.
"""
