"""Where a run took place: machine, Java, Python, packages, revision of the code."""

from __future__ import annotations

import os
import platform
import resource
import shutil
import sys
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from keymark.harness.engines import format_name, is_native, library_name, revision_of
from keymark.harness.errors import HarnessError
from keymark.harness.git import CLONE, git
from keymark.table.properties.options import LOCAL_SYNC

_PACKAGES = ("pyspark", "pyarrow", "numpy", "numba", "isal", "fastavro", "keymark")


def machine() -> dict[str, Any]:
    """Processor, cores that this process may use, memory in bytes, system, load when asked."""
    governor = _read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").strip()
    has_affinity = hasattr(os, "sched_getaffinity")
    cores = len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count() or 1
    return {
        "system": platform.system(),
        "release": platform.release(),
        "architecture": platform.machine(),
        "processor": _processor(),
        "cores": cores,
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "load_1m": load(),
        "megahertz": round(megahertz()),
        # How the first core's clock rate is chosen, where the machine says it.
        **({"governor": governor} if governor else {}),
    }


def disk(folder: Path) -> dict[str, Any]:
    """The disk that a folder is on: its size, and its file system and its device.

    Sizes are in bytes.
    """
    device = folder.stat().st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    mounts = (line.split() for line in _read("/proc/self/mountinfo").splitlines())
    # A mount's optional fields end with a dash, after which its type stands.
    kinds = [words[words.index("-") + 1] for words in mounts if number in words[2:3]]
    # What is true of a whole disk stands one folder above its partitions.
    block = f"/sys/dev/block/{number}"
    model = _read(f"{block}/device/model") or _read(f"{block}/../device/model")
    turns = _read(f"{block}/queue/rotational") or _read(f"{block}/../queue/rotational")
    return {
        "bytes": shutil.disk_usage(folder).total,
        **({"file_system": kinds[-1]} if kinds else {}),
        **({"model": model.strip()} if model.strip() else {}),
        **({"rotational": turns.strip() == "1"} if turns.strip() else {}),
    }


def load() -> float:
    """The machine's load average of the last minute."""
    return round(os.getloadavg()[0], 2)


def megahertz() -> float:
    """Mean clock rate of the cores now; 0 where the machine does not say."""
    lines = _read("/proc/cpuinfo").splitlines()
    rates = [float(line.partition(":")[2]) for line in lines if line.startswith("cpu MHz")]
    return sum(rates) / len(rates) if rates else 0.0


def stolen() -> float:
    """Core seconds that the host of this virtual machine gave to others since it started."""
    ticks = _ticks()
    return ticks[7] / os.sysconf("SC_CLK_TCK") if len(ticks) > 7 else 0.0


def busy_core_seconds() -> float:
    """Core seconds that somebody used since the machine started, its host included."""
    ticks = _ticks()
    # The fourth and fifth kinds are idle; those behind the eighth are in the first two.
    return sum((*ticks[:3], *ticks[5:8])) / os.sysconf("SC_CLK_TCK")


def versions(spark: SparkSession | None) -> dict[str, str]:
    """Versions of everything that a number may depend on."""
    found = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    if spark is not None:
        jvm: Any = spark.sparkContext._jvm  # noqa: SLF001 - the only way to the JVM's properties
        found["spark"] = spark.version
        found["java"] = (
            jvm.System.getProperty("java.vm.name")
            + " "
            + str(jvm.System.getProperty("java.vm.version"))
        )
    revision = _revision()
    return {**found, "revision": revision} if revision else found


def synced(engine: str, options: Mapping[str, str], *, remote: bool) -> str:
    """What an engine makes survive a power cut before it commits; docs/fair_play.md has the proof.

    Args:
        engine: its name in the scenario.
        options: of the scenario's tables.
        remote: whether the tables lie on an object store or HDFS.
    """
    if remote:
        return "by the store"
    if not is_native(engine):
        return _synced_by_others(engine)
    if revision_of(engine) is not None:
        return "what that revision does"
    if options.get(LOCAL_SYNC, "true").lower() == "false":
        return f"nothing: {LOCAL_SYNC}=false"
    return "files and folders"


def _synced_by_others(engine: str) -> str:
    if format_name(engine) is not None:
        return "nothing: Hadoop's local file system syncs no file"
    if library_name(engine) is not None:
        return "what the library does by default"
    return "nothing, Hudi's default"


def command() -> list[str]:
    """The command line of this process, as it would be typed at the project's root.

    What is not valid Unicode, such as a file name, is escaped.
    """
    words = (word.encode(errors="backslashreplace").decode() for word in sys.argv[1:])
    program = Path(sys.argv[0]).name
    started = [".venv/bin/python", program] if program == "run_bench.py" else ["keymark"]
    return [*started, *words]


def peak_memory() -> int:
    """The most bytes of memory that this process has held.

    Linux's own mark: that of getrusage counts what the process was before it became this program.
    """
    try:
        status = Path("/proc/self/status").read_text(encoding="utf-8")
        return 1024 * int(status.partition("VmHWM:")[2].split()[0])
    except (OSError, IndexError):
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else 1024 * most


def _ticks() -> list[int]:
    """The time of all cores by kind, in ticks; nothing where the system does not tell."""
    return [int(word) for word in _read("/proc/stat").partition("\n")[0].split()[1:]]


def _read(path: str) -> str:
    """A file of the system's; empty where there is none, as on other systems than Linux."""
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _processor() -> str:
    lines = _read("/proc/cpuinfo").splitlines()
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor())


def _revision() -> str | None:
    """Commit of the checkout that this code runs from, with `+` where files were changed."""
    try:
        commit = git(CLONE, "rev-parse", "--short=12", "HEAD").decode().strip()
        changed = git(CLONE, "status", "--porcelain", "--untracked-files=no").strip()
    except HarnessError:
        return None
    return f"{commit}+" if changed else commit
