"""Faults for a program of the user's: what `nezha chaos` is made of.

    faults        which fault hits what and when, out of a seed        (pure)
    confirmation  whether a fault happened, by the kernel's counters    (pure)
    throughput    throughput over time, standstills                     (pure)
    baseline      the undisturbed throughput, or why there is none     (pure)
    shortfall     the seconds in which more was possible               (pure)
    sampler       reads the lab's byte counters, as a process of its own
    ranks         the program's processes: alive, stopped, killed
    nemesis       inflicts a schedule on a lab
    experiment    lab, program, nemesis and sampler together
    report        what happened, as a document, and for people
    fault_figure  throughput against faults
"""
