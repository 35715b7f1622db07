"""What `nezha info` says of aggregation nodes and SHARP."""

import json

import pytest

from nezha_tools.info import aggregation


def test_sharp_is_found_and_not_loaded(tmp_path, monkeypatch):
    monkeypatch.setattr(aggregation, "_FOLDERS", (str(tmp_path / "*-linux-gnu"),))
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    assert aggregation.find_sharp() is None
    folder = tmp_path / "x86_64-linux-gnu"
    folder.mkdir()
    library = folder / "libsharp_coll.so.5"
    library.write_text("no library")
    assert aggregation.find_sharp() == str(library)
    (line,) = aggregation.sentences({"node": {"configured": ""}, "sharp": str(library)})[1:]
    assert str(library) in line and "does not use it yet" in line and "docs/aggregation.md" in line
    monkeypatch.setattr(aggregation, "_FOLDERS", ())
    monkeypatch.setenv("LD_LIBRARY_PATH", f":/nowhere:{folder}")
    assert aggregation.find_sharp() == str(library)


@pytest.mark.parametrize("node, words", [
    ({"configured": ""}, "none is configured"),
    ({"configured": "10.1.0.254:7700", "reachable": False, "reason": "no route"}, "no route"),
    ({"configured": "10.1.0.254:7700", "reachable": True, "served_by": "root",
      "topology": {"nodes": [{"name": "root"}]}}, "the only one"),
    ({"configured": "10.1.0.254:7700", "reachable": True, "served_by": "leaf", "topology": {"nodes": [
        {"name": "root"}, {"name": "leaf", "parent": "root"}]}}, "leaf below root); leaf serves this"),
    ({"configured": "10.1.0.254:7700", "reachable": True, "served_by": "", "topology": {"nodes": [
        {"name": "root"}, {"name": "leaf", "parent": "root"}]}}, "NONE SERVES"),
])
def test_the_node_in_a_sentence(node, words):
    assert words in aggregation.sentences({"node": node, "sharp": None})[0]


def test_a_node_is_asked(monkeypatch, tmp_path):
    from nezha import _native

    key = tmp_path / "key"
    key.write_text("0123456789abcdef0123456789abcdef")
    key.chmod(0o600)
    assert aggregation.describe()["node"] == {"configured": ""}
    node = _native.Aggregator("127.0.0.1", 0, None, str(key), 1, 0, 0, 0, 0, None, None)
    monkeypatch.setenv("NEZHA_AGGREGATOR", f"127.0.0.1:{node.port}")
    found = aggregation.describe()["node"]  # there is no default key
    assert found["reachable"] is False and "job-key" in found["reason"], found
    monkeypatch.setenv("NEZHA_AGGREGATOR_JOB_KEY", "0" * 16 + ":" + "0" * 64)
    found = aggregation.describe()["node"]
    assert found["reachable"] is False and "different secrets" in found["reason"], found
    answer = json.loads(_native.query("job_key", json.dumps({"key_file": str(key), "job": "any"})))
    monkeypatch.setenv("NEZHA_AGGREGATOR_JOB_KEY", answer["job_key"])
    found = aggregation.describe()["node"]
    assert found["reachable"] and len(found["topology"]["nodes"]) == 1, found
    node.close()
    found = aggregation.describe()["node"]
    assert found["reachable"] is False and found["reason"], json.dumps(found)


@pytest.mark.parametrize("option, word", [("tls", "cannot be encrypted"),
                                          ("integrity", "cannot be authenticated")])
def test_a_job_that_is_protected_has_no_node(world, option, word):
    from nezha.errors import InvalidArgument

    with pytest.raises(InvalidArgument, match=word):
        world(2, lambda comm: None,
              config={option: "on", "aggregator": "127.0.0.1:7700", "log_level": "error"})
