"""What all commands have in common: conventions of command lines, output, figures, values with units."""
