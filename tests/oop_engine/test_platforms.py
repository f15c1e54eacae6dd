"""What only some systems have is used where it is there, and missed nowhere else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

ELSEWHERE = """
import importlib, mmap, os, pkgutil, select, signal, socket, sys
import attrs, click, lark, numba, numpy, psycopg, pyarrow.compute, pyarrow.csv, pyarrow.json, pyarrow.parquet
import opentelemetry.sdk.resources, rich.console, trio

for name in ("fcntl", "resource", "pwd", "grp", "termios", "tty", "pty", "syslog"):
    sys.modules[name] = None
for place, names in (
    (os, "fork geteuid getuid getgid memfd_create mkfifo posix_fadvise pread pwrite sched_getaffinity set_blocking "
         "statvfs sysconf uname O_NOFOLLOW O_CLOEXEC O_NONBLOCK O_DIRECTORY"),
    (signal, "SIGHUP SIGURG SIGUSR1 SIGUSR2 SIGALRM SIGPIPE SIGKILL SIGCHLD pthread_sigmask setitimer"),
    (socket, "AF_PACKET SO_REUSEPORT MSG_DONTWAIT CMSG_LEN CMSG_SPACE"),
    (select, "poll"),
    (mmap, "PROT_READ PROT_WRITE MAP_SHARED MAP_PRIVATE MADV_DONTNEED"),
):
    for name in names.split():
        if hasattr(place, name):
            delattr(place, name)
sys.platform = "win32"
"""
"""Take away what Windows lacks, as far as packages that are loaded before do not need it."""


def elsewhere(program: str, *arguments: object) -> str:
    """Run a program without what only some systems have; give what it printed."""
    command = [sys.executable, "-c", ELSEWHERE + program, *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_module_loads_where_modules_of_one_system_are_missing() -> None:
    program = (
        "import oop_engine, operators, punctuation\n"
        "for package in (oop_engine, operators, punctuation):\n"
        "    for module in pkgutil.walk_packages(package.__path__, package.__name__ + '.'):\n"
        "        if module.name.rpartition('.')[2] != '__main__' and '.spark' not in module.name:\n"
        "            importlib.import_module(module.name)\n"
        "import oop_engine.spark.journal\n"
        "print('all')\n"
    )
    assert elsewhere(program) == "all\n"


def test_captures_are_read_and_queried_where_modules_of_one_system_are_missing(tmp_path: Path) -> None:
    program = (
        "import gzip, shutil, oop_engine as oop\n"
        "packed, plain, out = sys.argv[1:]\n"
        "with gzip.open(packed) as file, open(plain, 'wb') as to:\n    shutil.copyfileobj(file, to)\n"
        "for path in (packed, plain):\n"
        "    result = oop.pcap(path).window(range='1 minute', slide='1 minute').aggregate(oop.count())\n"
        "    print(*result.to_arrow()['count'].to_pylist())\n"
        "    result.to(out).run()\n"
        "    print(*pyarrow.parquet.read_table(out)['count'].to_pylist())\n"
    )
    capture = ROOT / "demos/captures/web.pcap.gz"
    assert elsewhere(program, capture, tmp_path / "a.pcap", tmp_path / "a.parquet").split() == ["4631"] * 4


def test_datagrams_are_received_where_nothing_polls() -> None:
    program = (
        "from oop_engine.sources.live.address import Listening\nfrom oop_engine.sources.live.door import Door\n"
        "door = Door.open(Listening('127.0.0.1', 0))\ndoor.wake()\ndoor.wait(60)\n"
        "sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
        "sender.sendto(b'abc', ('127.0.0.1', door.address.port))\ndoor.wait(60)\n"
        "print(door.receive(0) is not None, door.size)\ndoor.close()\n"
    )
    assert elsewhere(program) == "True 3\n"
