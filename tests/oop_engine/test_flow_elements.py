"""Elements of flow records beyond the common columns are read where a query names them, and asked for in Python."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

import oop_engine as oop
from oop_engine.cli import commands
from oop_engine.language.translate.files import flow_elements
from tests.oop_engine.flows.exporter import v5, v5_record


@pytest.fixture
def exports(tmp_path: Path) -> Path:
    path = tmp_path / "exports"
    path.write_bytes(v5([v5_record("10.0.0.1", octets=3)]))
    return path


@pytest.mark.parametrize("kind", ["", "netflow:"])
@pytest.mark.parametrize("element", ["postNATSourceIPv4Address", "reversePostOctetDeltaCount", "`6871/40`"])
def test_a_query_reads_the_elements_it_names_also_where_the_content_tells_the_format(
    exports: Path, kind: str, element: str
) -> None:
    text = f"SELECT {element} AS x, srcIP FROM F"
    done = CliRunner().invoke(commands, ["query", text, "-s", f"F={kind}{exports}", "-q"])
    assert done.output.splitlines() == ["x,srcIP", ",10.0.0.1"], done.output


def test_only_elements_beyond_the_common_columns_are_asked_for() -> None:
    text = "SELECT F.natEvent, octetDeltaCount, version, sum(bytes), 'natPoolId' FROM F WHERE `6871/40` = natEvent"
    assert flow_elements(text) == ["natEvent", "6871/40"]


def test_who_names_an_element_that_was_not_asked_for_is_told_how(exports: Path) -> None:
    flows = oop.netflow(exports)
    with pytest.raises(oop.LanguageError, match=r'columns=\["natEvent"\]'):
        oop.query("SELECT natEvent FROM F", F=flows)
    with pytest.raises(oop.LanguageError, match='Did you mean "natEvent"'):
        oop.query("SELECT natEvnt FROM F", F=flows)
    asked = oop.netflow(exports, columns=["natEvent"])
    assert oop.query("SELECT natEvent FROM F", F=asked).to_arrow().to_pylist() == [{"natEvent": None}]
