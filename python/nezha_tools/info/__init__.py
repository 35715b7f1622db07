"""What there is to know of hosts: this one before there is a job, and those of a job.

topology.py and distances.py read what the kernel says, memory_probe.py tries shared memory with
processes of its own, job.py asks the ranks of a job.
"""
