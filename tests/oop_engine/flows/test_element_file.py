"""Elements of enterprises have the names and types that a file gives them; a wrong entry is named with its place."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import oop_engine as oop
from oop_engine.cli import commands
from oop_engine.language.translate.files import flow_elements
from oop_engine.sources.errors import SourceError, TableError
from oop_engine.sources.flows import Element, read_elements
from tests.oop_engine.flows.exporter import a_set, ipfix, ipfix_templates, template

ENTRIES = [
    {"pen": 6871, "id": 40, "name": "probeLabel", "type": "string"},
    {"pen": "9", "id": 12_232, "name": "retransmitted", "type": "unsigned32"},
    {"pen": 9, "id": 1, "name": "hop", "type": "ipv4Address"},
    {"pen": 0, "id": 5000, "name": "ratio", "type": "float64"},
]
OWN = Element("probeLabel", 40, "string", enterprise=6871)


def saved(folder: Path, entries: Any, name: str = "elements.json") -> Path:
    path = folder / name
    path.write_text(entries if isinstance(entries, str) else json.dumps(entries), encoding="utf-8")
    return path


def lines(entries: list[dict[str, Any]]) -> str:
    return "\n".join(["pen,id,name,type", *(",".join(str(value) for value in one.values()) for one in entries)])


def exports(folder: Path) -> Path:
    fields = [(8, 4), (1, 4), (6871, 40, 8), (9, 12_232, 2), (9, 1, 4)]
    records = [
        bytes([10, 0, 0, k]) + struct.pack(">I", 100 * k) + f"probe{k}".encode().ljust(8, b"\0")
        + struct.pack(">H", 7 * k) + bytes([192, 0, 2, k])
        for k in (1, 2)
    ]  # fmt: skip
    path = folder / "own.ipfix"
    path.write_bytes(ipfix([ipfix_templates(template(256, fields)), a_set(256, b"".join(records))]))
    return path


def test_json_and_csv_name_the_same_elements(tmp_path: Path) -> None:
    found = read_elements(saved(tmp_path, ENTRIES))
    assert found == read_elements(saved(tmp_path, "\ufeff" + lines(ENTRIES), "elements.csv"))
    assert found["probeLabel"] == OWN
    assert [one.key for one in found.values()] == [(6871, 40), (9, 12_232), (9, 1), (0, 5000)]


def test_records_have_the_elements_under_their_names_and_types(tmp_path: Path) -> None:
    file, path = saved(tmp_path, ENTRIES), exports(tmp_path)
    stream = oop.netflow(path, columns=["probeLabel", "retransmitted", "hop"], elements=file)
    rows = stream.project("srcIP", "bytes", "probeLabel", "retransmitted", "hop").to_arrow().to_pylist()
    assert rows == [
        {
            "srcIP": f"10.0.0.{k}",
            "bytes": 100 * k,
            "probeLabel": f"probe{k}",
            "retransmitted": 7 * k,
            "hop": f"192.0.2.{k}",
        }
        for k in (1, 2)
    ]


def test_a_query_uses_the_names_of_a_file(tmp_path: Path) -> None:
    file, path = saved(tmp_path, lines(ENTRIES), "own.csv"), exports(tmp_path)
    text = "SELECT probeLabel, sum(retransmitted) AS again FROM F WHERE srcIP = '10.0.0.2' GROUP BY probeLabel"
    assert flow_elements("SELECT probeLabel, natEvent FROM F", str(file)) == [OWN, "natEvent"]
    done = CliRunner().invoke(commands, ["query", text, "-s", f"F=netflow:{path}", "--elements", str(file)])
    assert done.exit_code == 0, done.output
    assert '"probe2",14' in done.output
    missing = CliRunner().invoke(commands, ["query", text, "-s", f"F=netflow:{path}", "--elements", "no.json"])
    assert missing.exit_code != 0 and "no.json" in missing.output


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"pen": -1}, "element 2: pen is -1"),
        ({"pen": 2**32}, "pen is 4294967296; write a whole number from 0 to 4,294,967,295"),
        ({"id": 40_000}, "id is 40000; write a whole number from 0 to 32,767"),
        ({"id": True}, "id is True"),
        ({"id": 1.5}, "id is 1.5"),
        ({"id": "9" * 5000}, "id is '999"),
        ({"type": "unsigned33"}, '"unsigned33" is no type of IPFIX(.|\n)*unsigned32'),
        ({"type": ["string"]}, "is no type of IPFIX"),
        ({"name": "srcIP"}, "an attribute of all flow records"),
        ({"name": "octetDeltaCount"}, "an attribute of all flow records"),
        ({"name": "natEvent"}, "an attribute of all flow records"),
        ({"name": "a b"}, "'a b' is no name"),
        ({"name": 7}, "7 is no name"),
        ({"name": "probeLabel"}, '"probeLabel" is the name of an element before it'),
        ({"pen": 6871, "id": 40}, 'element 40 of enterprise 6871 has the name "probeLabel" already'),
        ({"name": None}, 'element 2: "name" is missing'),
    ],
)
def test_a_wrong_entry_is_named_with_its_place_and_the_way_out(
    tmp_path: Path, change: dict[str, Any], told: str
) -> None:
    path = saved(tmp_path, [ENTRIES[0], {**ENTRIES[1], **change}])
    with pytest.raises(TableError, match=told):
        read_elements(path)


@pytest.mark.parametrize(
    ("text", "name", "told"),
    [
        ("{", "a.json", "is no JSON"),
        ("[" * 100_000, "a.json", "is no JSON"),
        ("{}", "a.json", "is no list of elements"),
        ("[7]", "a.json", "element 1: 7 is no object"),
        ('pen,id,name,type\n1,2,"x', "a.csv", "line 1: unexpected end of data"),
        ("pen,id,name\n1,2,x", "a.csv", 'line 2: "type" is missing'),
        ("pen,id,name,type\n1,2,x", "a.csv", 'line 2: "type" is missing'),
    ],
)
def test_a_file_that_is_none_is_refused(tmp_path: Path, text: str, name: str, told: str) -> None:
    with pytest.raises(TableError, match=told):
        read_elements(saved(tmp_path, text, name))


def test_files_that_are_not_there_or_no_text_are_named(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"nowhere\.json"):
        read_elements(tmp_path / "nowhere.json")
    (tmp_path / "binary.json").write_bytes(b"[\xff]")
    with pytest.raises(TableError, match="byte 1 is no UTF-8"):
        read_elements(tmp_path / "binary.json")
