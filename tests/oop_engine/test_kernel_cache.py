"""Whatever happens to sources, folders and disks, a run gives the answers of the sources that it runs."""

from __future__ import annotations

import ctypes
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from operators.kernels.compile import compiler

ROOT = Path(__file__).parents[2]
PACKAGES = ("oop_engine", "operators", "punctuation")
DROP_CAPABILITY, WRITE_ANYWHERE = 24, 1
SMALL = "from oop_engine.sources.flows.fields import _time\nprint(int(_time(-1, 1)))\n"
"""It calls a kernel that reads a constant of another module, and one in this."""

OTHER_TIME = ("NO_TIME = int(np.iinfo(np.int64).min)", "NO_TIME = int(np.int64(-(2**62)))    ")
"""What no time is, otherwise; files keep their lengths."""

pytestmark = pytest.mark.skipif(compiler.interpreted(), reason="nothing is compiled")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Give a copy of the packages."""
    for package in PACKAGES:
        shutil.copytree(ROOT / package, tmp_path / "tree" / package, ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path / "tree"


def run(
    tree: Path, program: str, *arguments: str, before: Callable[[], None] | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a program on the packages in a folder."""
    inherited = {k: v for k, v in os.environ.items() if k != "NUMBA_CACHE_DIR"}
    # Python keeps bytecode by a file's time and size, which the tests below leave as they are.
    environment = {**inherited, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1", **environment}
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        cwd=tree,
        env=environment,
        preexec_fn=before,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    return done


def edit(path: Path, *changes: tuple[str, str]) -> None:
    """Change a source so that neither its size nor its time does."""
    text, stat = path.read_text(), path.stat()
    for old, new in changes:
        assert text.count(old) == 1
        assert len(old) == len(new)
        text = text.replace(old, new)
    path.write_text(text)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def files(folder: Path) -> set[str]:
    return {path.name for path in folder.rglob("*.kernel")}


def test_a_constant_of_another_module_is_never_that_of_an_earlier_run(tree: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    assert run(tree, SMALL, NUMBA_CACHE_DIR=str(cache)).stdout == f"{-(2**63)}\n"
    before = files(cache)
    assert before
    edit(tree / "punctuation/schedule.py", OTHER_TIME)
    assert run(tree, SMALL, NUMBA_CACHE_DIR=str(cache)).stdout == f"{-(2**62)}\n"
    assert files(cache) > before


def test_what_has_not_changed_is_not_compiled_again(tree: Path, tmp_path: Path) -> None:
    """Comments, other places of a file, and another folder change nothing of what is compiled."""
    cache = str(tmp_path / "cache")
    counting = SMALL + "print(sum(_time.stats.cache_hits.values()), sum(_time.stats.cache_misses.values()))\n"
    assert run(tree, counting, NUMBA_CACHE_DIR=cache).stdout.split()[1:] == ["0", "1"]
    moved = tree.rename(tree.with_name("elsewhere"))
    path = moved / "oop_engine/sources/flows/fields.py"
    path.write_text(path.read_text().replace("\n\n\n@kernel", "\n\n\n# A remark.\n@kernel"))
    assert run(moved, counting, NUMBA_CACHE_DIR=cache).stdout.split()[1:] == ["1", "0"]


@pytest.mark.slow
def test_columns_of_a_table_that_change_places_change_them_in_every_kernel(tree: Path, tmp_path: Path) -> None:
    program = (
        "import sys, oop_engine as oop\n"
        "flows = oop.netflow(sys.argv[1])\n"
        "print(flows.aggregate(oop.sum('bytes'), oop.count()).to_arrow().to_pylist())\n"
    )
    capture, cache = str(ROOT / "demos/captures/exports.pcap.gz"), str(tmp_path / "cache")
    first = run(tree, program, capture, NUMBA_CACHE_DIR=cache).stdout
    edit(
        tree / "oop_engine/sources/flows/entries.py",
        ("O_OFFSET: Final = 3", "O_OFFSET: Final = 4"),
        ("O_LENGTH: Final = 4", "O_LENGTH: Final = 3"),
    )
    # Not all that writes the table asks for the columns by name, so the answer is another one: that of these sources.
    changed = run(tree, program, capture, NUMBA_CACHE_DIR=cache).stdout
    assert changed == run(tree, program, capture, NUMBA_CACHE_DIR=str(tmp_path / "empty")).stdout
    assert changed != first


@pytest.mark.slow
def test_a_wheel_that_is_upgraded_in_place_leaves_nothing_of_the_old_one(tree: Path, tmp_path: Path) -> None:
    pytest.importorskip("hatchling")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tree)

    def installed() -> Path:
        shutil.rmtree(tree / "dist", ignore_errors=True)
        build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", "dist"]
        subprocess.run(build, cwd=tree, check=True, capture_output=True, timeout=120)
        (wheel,) = (tree / "dist").glob("*.whl")
        shutil.unpack_archive(wheel, tmp_path / "site", "zip")
        for path in (tmp_path / "site").rglob("*.py"):
            os.utime(path, (1_580_601_600, 1_580_601_600))
        return tmp_path / "site"

    assert run(installed(), SMALL).stdout == f"{-(2**63)}\n"
    assert files(tmp_path / "site/operators/kernels/compile/__pycache__")
    edit(tree / "punctuation/schedule.py", OTHER_TIME)
    assert run(installed(), SMALL).stdout == f"{-(2**62)}\n"


def unprivileged() -> None:
    """Take from root the right to write where nobody may."""
    if os.geteuid() == 0:
        assert ctypes.CDLL(None).prctl(DROP_CAPABILITY, WRITE_ANYWHERE, 0, 0, 0) == 0


def locked(folder: Path) -> Path:
    for path in (*folder.rglob("*"), folder):
        if path.is_dir():
            path.chmod(0o555)
    return folder


@pytest.fixture
def bare(tree: Path, tmp_path: Path) -> dict[str, str]:
    """Give the environment of a user who can write nothing but the folder of temporary files."""
    home = tmp_path / "home"
    home.mkdir(mode=0o555)
    (tmp_path / "temporary").mkdir()
    locked(tree)
    return {"HOME": str(home), "XDG_CACHE_HOME": "", "TMPDIR": str(tmp_path / "temporary")}


def test_where_no_cache_can_be_written_a_private_one_is_used_and_said_once(
    tree: Path, bare: dict[str, str], tmp_path: Path
) -> None:
    child = "import subprocess, sys, os, stat\nfrom pathlib import Path\n" + SMALL + (
        "from oop_engine.sources.flows.fields import signed32\nsigned32(5)\n"
        "(folder,) = Path(os.environ['TMPDIR']).iterdir()\n"
        "print(stat.S_IMODE(folder.stat().st_mode) == 0o700, len(list(folder.iterdir())) > 1)\n"
        f"subprocess.run([sys.executable, '-c', {SMALL!r}], check=True)\n"
    )  # fmt: skip
    done = run(tree, child, before=unprivileged, **bare)
    assert done.stdout.splitlines() == [str(-(2**63)), "True True", str(-(2**63))] or done.stdout.splitlines() == [
        str(-(2**63)), str(-(2**63)), "True True",
    ]  # fmt: skip
    (said,) = done.stderr.splitlines()
    assert "NUMBA_CACHE_DIR" in said
    assert "Traceback" not in said
    assert list((tmp_path / "temporary").iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("home", ["/nonexistent", "/dev/null", ""])
def test_a_user_without_a_home_gets_answers(tree: Path, bare: dict[str, str], home: str) -> None:
    done = run(tree, SMALL, before=unprivileged, **{**bare, "HOME": home})
    assert done.stdout == f"{-(2**63)}\n"
    assert not Path("/nonexistent").exists()


def test_where_not_even_temporary_files_can_be_written_runs_give_answers(tree: Path, bare: dict[str, str]) -> None:
    program = "import tempfile\ntempfile.tempdir = '/dev/null'\n" + SMALL
    done = run(tree, program, before=unprivileged, **bare)
    assert done.stdout == f"{-(2**63)}\n"
    assert len(done.stderr.splitlines()) == 1


def test_kernels_that_an_image_was_built_with_are_used_where_they_cannot_be_written(
    tree: Path, bare: dict[str, str], tmp_path: Path
) -> None:
    os.chmod(tree / "operators/kernels/compile", 0o755)
    run(tree, SMALL)
    locked(tree)
    done = run(tree, SMALL, before=unprivileged, **bare)
    assert done.stdout == f"{-(2**63)}\n"
    assert done.stderr == ""
    assert list((tmp_path / "temporary").iterdir()) == []


def test_the_folder_that_is_named_is_the_only_one(tree: Path, tmp_path: Path) -> None:
    run(tree, SMALL, NUMBA_CACHE_DIR=str(tmp_path / "named"), HOME=str(tmp_path))
    assert files(tmp_path / "named")
    assert files(tmp_path) == files(tmp_path / "named")


def test_a_temporary_folder_that_is_somebody_elses_by_now_is_not_read(tree: Path, tmp_path: Path) -> None:
    gone = tmp_path / "oop-engine-kernels-1-abc"
    done = run(tree, SMALL, NUMBA_CACHE_DIR=str(gone))
    assert done.stdout == f"{-(2**63)}\n"
    assert not gone.exists()


def test_a_disk_that_is_full_is_told_and_ends_no_run(tree: Path, tmp_path: Path) -> None:
    def full() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (512, 512))

    done = run(tree, SMALL + "_time(-1, 1.0)\n", before=full, NUMBA_CACHE_DIR=str(tmp_path / "cache"))
    assert done.stdout == f"{-(2**63)}\n"
    (said,) = done.stderr.splitlines()
    assert "NUMBA_CACHE_DIR" in said
    assert list((tmp_path / "cache").rglob("*.*")) == []


def test_a_cache_that_is_deleted_under_way_is_begun_again(tree: Path, tmp_path: Path) -> None:
    program = SMALL + (
        "import shutil, sys\nshutil.rmtree(sys.argv[1])\n"
        "from oop_engine.sources.flows.fields import signed32\nprint(int(signed32(5)))\n"
    )
    done = run(tree, program, str(tmp_path / "cache"), NUMBA_CACHE_DIR=str(tmp_path / "cache"))
    assert (done.stdout.splitlines()[1], done.stderr) == ("5", "")
    assert {name.split("-")[0] for name in files(tmp_path)} == {"oop_engine.sources.flows.fields.signed32"}


@pytest.mark.slow
@pytest.mark.parametrize("keep", [0, 20, 5000])
def test_a_damaged_file_is_compiled_again_and_mended(tree: Path, tmp_path: Path, keep: int) -> None:
    cache = tmp_path / "cache"
    run(tree, SMALL, NUMBA_CACHE_DIR=str(cache))
    whole = {path: path.read_bytes() for path in cache.rglob("*.kernel")}
    for path, data in whole.items():
        path.write_bytes(data[:keep] + bytes([data[keep] ^ 1]) + data[keep + 1 :] if keep == 5000 else data[:keep])
    done = run(tree, SMALL, NUMBA_CACHE_DIR=str(cache))
    assert (done.stdout, done.stderr) == (f"{-(2**63)}\n", "")
    assert {len(path.read_bytes()) for path in whole} == {len(data) for data in whole.values()}


@pytest.mark.slow
@pytest.mark.parametrize(
    "without",
    [
        "import numba.core.compiler as c\ndel c.CompileResult._reduce\n",
        "import numba.core.serialize as s\ndel s.loads\n",
        "import numba.core.options as o\ndel o.DefaultOptions._nrt\n",
    ],
)
def test_a_numba_without_what_is_private_to_it_gives_the_same_answers(tree: Path, tmp_path: Path, without: str) -> None:
    done = run(tree, without + SMALL, NUMBA_CACHE_DIR=str(tmp_path / "cache"))
    assert (done.stdout, done.stderr) == (f"{-(2**63)}\n", "")


def test_a_numba_that_lets_no_pass_change_a_function_interprets_those_of_users(tree: Path, tmp_path: Path) -> None:
    program = (
        "import numba.core.ir_utils as i\nkept = i.build_definitions\ndel i.build_definitions\n"
        "import oop_engine as oop, operators.kernels.functions.lifted as l\nassert l.switched_off()\n"
        "i.build_definitions = kept\n"
    )
    run(tree, program, NUMBA_CACHE_DIR=str(tmp_path / "cache"))
