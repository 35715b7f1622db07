"""The command `nezha` and its parts: what people run around the jobs of nezha, and no program imports.

    main, commands   the program, and its list of commands
    cli              what all commands have in common
    info, explain, flight, bench, lab, chaos, demo, aggregator
                     a folder for each command; command.py has its options

`nezha run` is nezha.launcher. Libraries that a command needs, such as typer, come with the extra `tools`.
"""
