"""`nezha run`: starts the ranks of a job and ends them together."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any, Callable, List, Mapping, NamedTuple, NoReturn, Sequence

from ..files import explained, read_text, whole_file
from . import hostfile
from .errors import LaunchError
from .placement import Rank, on_hosts, on_this_host, variables
from .watch import Outcome, launch

_ALONE = ("-h", "--help", "--json")  # options that stand without a value; "=" gives --json one
OURS = 125  # the launcher failed, and not the program that it ran: as env(1) has it

_ABOUT = """Start the ranks of a job, and end them together.

Each rank gets RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT, so
nezha.init() and torch.distributed need nothing more. Every line of a rank is printed after its [rank];
a traceback, or a warning of Nezha's log, that many ranks have alike is printed once, and then how many
others had it.
When a rank fails, the others get a few seconds to report and are ended; the first failure is reported,
and its exit code is that of `nezha run` (128 + signal when it was killed, 127 when it could not be
started). 125: Nezha itself failed, or the command line is bad. SIGUSR1 and SIGUSR2 are passed on to the
ranks, which start with them ignored.
"""
_EXAMPLES = """examples:
  nezha run -n 4 python train.py
  nezha run -n 2 --env NEZHA_POLICY=table -- python train.py --epochs 3
  nezha run -H node1:2,node2:2 python train.py    (through ssh, without passwords, same folders on
                                                   every host)
  nezha run --hostfile hosts.txt python train.py     (lines: HOST slots=N)
"""


class Place(NamedTuple):
    """Somewhere else that ranks can be started, chosen by an option of its own. `ranks` takes the
    option's value, how many ranks (0: as many as fit), the command and variables. It raises
    LaunchError."""

    option: str
    help: str
    example: str
    ranks: Callable[[str, int, Sequence[str], Mapping[str, str]], List[Rank]]


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(OURS, f"nezha run: {message}; nezha run --help says what it takes\n")


def main(words: Sequence[str], places: Sequence[Place] = ()) -> int:
    """Carries out the command line behind `nezha run`; its exit code."""
    try:
        return _run(_parsed(words, places), places)
    except LaunchError as error:
        _complain(error)
    except OSError as error:
        _complain(explained(error))
    return OURS


def _parsed(words: Sequence[str], places: Sequence[Place]) -> argparse.Namespace:
    parser = _Parser(prog="nezha run", usage="nezha run [OPTIONS] COMMAND [ITS WORDS]",
                     allow_abbrev=False, description=_ABOUT,
                     epilog=_EXAMPLES + "".join(f"  {each.example}\n" for each in places),
                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("-n", "--ranks", type=_number("of 1 or more", 1 << 30), metavar="N",
        help="how many (default: one per node or slot of where they run, else 1)")
    add("-H", dest="host_list", metavar="HOST[:N],...",
        help="hosts, and how many ranks each gets (default: 1)")
    add("--hostfile", type=Path, metavar="FILE", help="the same in a file: lines of HOST slots=N")
    for place in places:
        add(place.option, dest=place.option, metavar="NAME", help=place.help)
    add("--env", "-x", action="append", default=[], metavar="NAME[=VALUE]",
        help="a variable for every rank; without a value: this process's. Other hosts otherwise get only "
             "NEZHA_*, and look for COMMAND first where this host finds it")
    add("--chdir", metavar="FOLDER", help="on hosts: where to start (default: this directory)")
    add("--master-port", type=_number("from 1 to 65535", 65535), metavar="PORT",
        help="on hosts: where the ranks meet")
    add("--grace", type=_seconds, default=3.0, metavar="S",
        help="seconds for the other ranks after the first failure (default: 3)")
    add("--json", nargs="?", const="-", metavar="=FILE",
        help="print a summary as JSON, the ranks' output going to standard error, or write it to FILE")
    begin = _program_begins(words)
    given = parser.parse_args(words[:begin])
    given.command = list(words[begin + 1:] if words[begin:begin + 1] == ["--"] else words[begin:])
    if not given.command:
        parser.error("COMMAND is missing")
    return given


def _program_begins(words: Sequence[str]) -> int:
    """The index of the first word that is no option of ours and no option's value."""
    index = 0
    while index < len(words) and words[index].startswith("-") and words[index] not in ("-", "--"):
        word = words[index]
        has_its_value = "=" in word or word in _ALONE or (word[1] != "-" and len(word) > 2)
        index += 1 if has_its_value else 2
    return min(index, len(words))


def _number(allowed: str, most: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not text.isdecimal() or not 1 <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"{text!r} is not a number {allowed}")
        return int(text)

    return read


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds")
    return seconds


def _run(given: argparse.Namespace, places: Sequence[Place]) -> int:
    placed = _placed(given, places)
    outcome = launch(placed, grace_s=given.grace, out=sys.stderr.buffer if given.json == "-" else None)
    if given.json is not None:
        _write(outcome.to_dict(), given.json)
    _report(outcome, len(placed))
    return outcome.exit_code


def _placed(given: argparse.Namespace, places: Sequence[Place]) -> List[Rank]:
    elsewhere = [each for each in places if getattr(given, each.option) is not None]
    on_others = [("--hostfile", given.hostfile), ("-H", given.host_list)]
    chosen = [each.option for each in elsewhere]
    chosen += [name for name, value in on_others if value is not None]
    env = variables(given.env)
    if len(chosen) > 1:
        raise LaunchError(f"{' and '.join(chosen)} exclude each other")
    is_on_hosts = given.hostfile is not None or given.host_list is not None
    if not is_on_hosts and (given.chdir is not None or given.master_port is not None):
        raise LaunchError("--chdir and --master-port belong to --hostfile and -H")
    if elsewhere:
        place = elsewhere[0]
        return place.ranks(getattr(given, place.option), given.ranks or 0, given.command, env)
    if not is_on_hosts:
        return on_this_host(given.ranks or 1, given.command, env)
    source = "-H" if given.hostfile is None else str(given.hostfile)
    return on_hosts(_hosts(given), source, given.ranks or 0, given.command, env,
                    given.chdir or os.getcwd(), given.master_port)


def _hosts(given: argparse.Namespace) -> List[hostfile.Host]:
    if given.hostfile is None:
        return hostfile.listed(given.host_list)
    try:
        return hostfile.parse(read_text(given.hostfile), str(given.hostfile))
    except (OSError, UnicodeDecodeError) as error:
        raise LaunchError(f"--hostfile {given.hostfile}: {error}") from error


def _write(document: Any, target: str) -> None:
    text = json.dumps(document, indent=1) + "\n"
    if target == "-":
        sys.stdout.write(text)
        sys.stdout.flush()
        return
    try:
        with whole_file(Path(target)) as place:
            place.write_text(text, encoding="utf-8")
    except OSError as error:
        raise LaunchError(f"cannot write {target}: {explained(error)}") from error


def _report(outcome: Outcome, count: int) -> None:
    failure = outcome.first_failure
    if failure is None:
        if outcome.interrupted_by is not None:
            _complain(f"{outcome.interrupted_by}: all ranks were ended")
        return
    others = "; it was the first to fail, and the others were ended" if count > 1 else ""
    _complain(f"{failure}{others}")
    if failure.last_lines:
        print("its last words:", *(f"  | {line}" for line in failure.last_lines), sep="\n",
              file=sys.stderr)


def _complain(what: object) -> None:
    print(f"nezha run: {what}", file=sys.stderr)
