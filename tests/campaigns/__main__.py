"""The command: python -m campaigns; see --help."""

from __future__ import annotations

import argparse
import json
import sys
import traceback
from pathlib import Path
from typing import Any, Dict, List, Sequence

from nezha.lab import capabilities
from rich.console import Console

from campaigns import report
from campaigns.campaign import FORMS, Campaign, Record
from campaigns.catalog import CAMPAIGNS


def run_one(campaign: Campaign, form: str, seed: int, out: Path, fresh: bool = False,
            wanted: int = 0) -> Dict[str, Any]:
    """Runs a campaign to its summary, which is also written. Never raises for what it finds.

    The long form goes on with the samples of a former run of the same seed, unless fresh.
    wanted: faults, 0 = the form's.
    """
    folder = out / form
    record = Record(folder / f"{campaign.id}-{seed}.samples", form,
                    wanted or campaign.wanted[FORMS.index(form)], seed,
                    budget_s=campaign.budget_s if form == "faults" else 0.0,
                    resume=form == "soak" and not fresh)
    try:
        campaign.run(record)
    except Exception as error:  # a finding, or a defect of the campaign: both break it
        record.violations.append(f"fault {len(record.samples)} of seed {seed}: "
                                 f"{type(error).__name__}: {error}")
        if not isinstance(error, AssertionError):
            traceback.print_exc()
    finally:
        record.close()
    if record.violations and record.dumps.exists():
        record.violations[-1] += f"; what the ranks did last: nezha flight {record.dumps}/*"
    result = report.summary(campaign, record, seed)
    report.write(result, folder)
    return result


def chosen(only: str, form: str) -> List[Campaign]:
    """The campaigns of a form, or those named. Raises SystemExit for a name that there is not."""
    known = {campaign.id: campaign for campaign in CAMPAIGNS}
    names = [name.strip().upper() for name in only.split(",") if name.strip()]
    unknown = [name for name in names if name not in known]
    if unknown:
        raise SystemExit(f"no campaign {', '.join(unknown)}: there are {', '.join(known)}")
    return [c for c in CAMPAIGNS if c.wanted[FORMS.index(form)] and (not names or c.id in names)]


def exit_code(results: Sequence[Dict[str, Any]]) -> int:
    """The short form judges what is right; the others also how fast."""
    bad = {"BROKEN"} if all(r["form"] == "short" for r in results) else {"BROKEN", "MISSED"}
    return 1 if any(r["verdict"] in bad for r in results) else 0


def main() -> int:
    """Entry point."""
    parser = argparse.ArgumentParser(prog="campaigns", description="Measured fault campaigns.")
    parser.add_argument("--form", choices=FORMS, default="short")
    parser.add_argument("--only", default="", help="such as R1,R2 (default: all of the form)")
    parser.add_argument("--faults", type=int, default=0, help="in place of the form's number")
    parser.add_argument("--seed", type=int, default=1, help="of all random choices (default: 1)")
    parser.add_argument("--out", type=Path, default=Path("out/faults"))
    parser.add_argument("--fresh", action="store_true", help="the long form begins again")
    parser.add_argument("--json", action="store_true", help="lines of JSON in place of the table")
    arguments = parser.parse_args()
    can = capabilities()
    if not can.namespaces:
        raise SystemExit(f"fault campaigns need a lab with networks of its own: {can.reason}")
    console = Console(width=None if sys.stdout.isatty() else 120)
    results = []
    for campaign in chosen(arguments.only, arguments.form):
        if not arguments.json:
            console.print(f"{campaign.id} {campaign.title} ...")
        results.append(run_one(campaign, arguments.form, arguments.seed, arguments.out,
                               arguments.fresh, arguments.faults))
        if arguments.json:
            print(json.dumps(results[-1]), flush=True)
    if not arguments.json:
        report.show(results, console)
    return exit_code(results)


if __name__ == "__main__":
    sys.exit(main())
