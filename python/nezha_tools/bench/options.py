"""Options of `nezha bench COLLECTIVE` that mean nothing for the collective, or for the world at hand."""

from __future__ import annotations

from typing import Any, Dict, Mapping

from .spec import IN_PLACE, REDUCTIONS, ROOTED
from nezha.launch_environment import Launched
from ..cli.launched import in_words, refuse


def check(collective: str, options: Mapping[str, str], given: Mapping[str, Any]) -> None:
    """Raises BenchError for an option that `collective` has no use for, or that another one cancels.

    options: those asked for, as launched.asked() has them; given: the values of all.
    """
    reasons: Dict[str, str] = {}
    if collective == "barrier":
        reasons = dict.fromkeys(("minbytes", "maxbytes", "factor", "datatype", "check", "algorithm",
                                 "plot_to"), "it carries no data")
    if collective not in REDUCTIONS:
        reasons["op"] = f"only {', '.join(REDUCTIONS)} combine data"
    if collective not in ROOTED:
        reasons["root"] = f"only {', '.join(ROOTED)} have one"
    if collective not in IN_PLACE:
        reasons["in_place"] = f"only {', '.join(IN_PLACE)} can be measured both ways"
    refuse(options, reasons, f"on {collective}")
    if not any(name.strip().startswith("gloo") for name in (given["compare"] or "").split(",")):
        refuse(options, {"torch_python": "it is for --compare gloo"}, "here")


def check_in_lab(options: Mapping[str, str], given: Mapping[str, Any]) -> None:
    """Raises BenchError for what has no effect in a lab of the bench's own."""
    if given["one_rail"] is not None:
        refuse(options, {"compare": "that option leaves Nezha one rail, and the others every one: build "
                                    "the lab with one rail (--rates 1gbit)"}, "beside --one-rail")
    if given["gain"] and (given["one_rail"] is not None or "," not in given["rates_text"]):
        refuse(options, {"gain": "there is one rail, and nothing to gain over it"}, "here")


def check_in_world(world: Launched, options: Mapping[str, str], given: Mapping[str, Any]) -> None:
    """Raises BenchError for what has no effect in a launched world."""
    lab = ("ask for a lab with --nodes" if world.world_size == 1 else
           "start nezha bench without a launcher for a lab of its own")
    reasons = {
        "nodes": f"its ranks are there already; leave it out, or {lab}",
        "ranks_per_node": f"its ranks are where they are; leave it out, or {lab}",
        "rates_text": "the hosts' own rails are measured; choose among them with NEZHA_RAILS or --config "
                 f"rails=..., or {lab}",
        "compare": f"other libraries are measured in a lab; {lab}"}
    if given["gain"]:
        reasons["gain"] = f"single rails are measured in a lab; {lab}, or measure one with --one-rail"
    if given["launches"] > 1:
        reasons["launches"] = "a rank cannot launch its world again; repeat the whole command"
    refuse(options, reasons, f"here, {in_words(world)}")


def taken(given: Mapping[str, Any], in_lab: bool) -> Dict[str, str]:
    """Keys of --config that other options cancel, and which ones."""
    found: Dict[str, str] = {}
    if given["policy"] is not None:
        found["policy"] = f"--policy {given['policy']} sets it"
    if given["flat"]:
        found["hierarchy"] = "--flat sets it"
    if given["cores_per_rail"] is not None:
        found["cpu_affinity"] = "--cores-per-rail sets it"
    if in_lab:
        found["rails"] = "the rails of a lab are those of --rates, and --one-rail leaves one of them"
    elif given["one_rail"] is not None:
        found["rails"] = "--one-rail sets it, of the rails that NEZHA_RAILS names"
    return found
