"""`nezha explain` and `nezha algorithm`: the plan of an operation, and schedules of one's own."""
