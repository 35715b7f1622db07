"""`nezha bench messages`: policies of choosing the rail of a message, under load, in a lab."""
