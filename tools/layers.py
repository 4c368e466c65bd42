#!/usr/bin/env python3
"""Checks the arrows between the folders of src/ by reading every #include.

base <- {core, wire, config} <- {control, transport, bootstrap, observe} <- runtime <- {testkit, cli, python, cabi};
core sees of wire only wire/message.h; sim sees the pure parts only; include/kvferry stands alone.
"""
import argparse
import re
import sys
from fnmatch import fnmatch
from pathlib import Path

from files import project_files, report

PURE = {"api", "base", "core", "wire"}
WING = PURE | {"config"}
SHELL = WING | {"control", "transport", "bootstrap", "observe"}

# module -> the modules whose headers it may include (its own always).
ARROWS = {
    "api": set(),
    "base": {"api"},
    "wire": {"api", "base"},
    "core": {"api", "base"},
    "planner": {"api", "base"},
    "config": {"api", "base"},
    "control": WING,
    "transport": WING,
    "bootstrap": WING,
    "observe": WING,
    "conformance": {"api", "base", "transport"},
    "replay": SHELL | {"runtime"},
    "runtime": SHELL,
    "testkit": SHELL | {"runtime"},
    "python": SHELL | {"runtime"},
    "cabi": SHELL | {"runtime"},
    "sim": PURE,
    "cli": SHELL | {"runtime", "testkit", "sim", "replay", "conformance"},
    "simcli": PURE | {"config", "sim"},
}

# Single headers that a module may include beyond its arrows.
EXTRA = {
    "core": ["wire/message.h"],
    "sim": [
        "transport/tcp/frame.h", "control/frame_reader.h", "bootstrap/routes.h", "bootstrap/answers.h",
        "bootstrap/json_body.h",
    ],
}

# Third-party and system headers: what the pure modules must not reach for.
IMPURE = [
    "thread", "mutex", "shared_mutex", "condition_variable", "future", "semaphore", "latch", "barrier", "stop_token",
    "iostream", "fstream", "filesystem", "random", "csignal", "ctime", "time.h", "unistd.h", "fcntl.h", "poll.h",
    "pthread.h", "signal.h", "sys/*", "netinet/*", "arpa/*", "boost/*", "spdlog/*", "nlohmann/*", "CLI/*",
]
PURE_MODULES = {"core", "planner", "wire", "sim"}

INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)')


def module_of(path: Path) -> str | None:
    if path.parts[:2] == ("include", "kvferry"):
        return "api"
    if path.parts[0] == "src" and len(path.parts) > 2:
        return path.parts[1]
    return None


def check_project_include(module: str, name: str) -> str | None:
    if name.split("/")[0] == "kvferry":
        return None
    if Path(name).name == "kvferry_generated.h":
        return None if module == "wire" else "only wire includes the generated schema"
    target = name.split("/")[0] if "/" in name else ""
    if target not in ARROWS or target == "api":
        return "write the path from include/ or src/, as in \"core/engine.h\""
    if target == module or target in ARROWS[module] or name in EXTRA.get(module, []):
        return None
    return f"{module} may not include {target}"


def check_system_include(module: str, name: str) -> str | None:
    if name.startswith("kvferry/"):
        return "write project headers in quotes"
    if module == "api" and name != "tl/expected.hpp" and not re.fullmatch(r"[a-z_]+", name):
        return "a public header includes the standard library, tl/expected.hpp and kvferry/ only"
    if module in PURE_MODULES and any(fnmatch(name, pattern) for pattern in IMPURE):
        return f"{module} is pure and may not include <{name}>"
    return None


def check_file(root: Path, path: Path, module: str) -> list[str]:
    if module not in ARROWS:
        return [f"{path}:1: folder src/{module} has no place in tools/layers.py"]
    problems = []
    for number, line in enumerate((root / path).read_text(encoding="utf-8").splitlines(), 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        if match[1]:
            problem = check_project_include(module, match[1])
        else:
            problem = check_system_include(module, match[2])
        if problem:
            problems.append(f"{path}:{number}: {problem}: {match[1] or match[2]}")
    return problems


def check_extra(root: Path) -> list[str]:
    """An exception for a header that is gone would let a later one of that name in unseen."""
    return [f"tools/layers.py: EXTRA names src/{name}, which does not exist"
            for names in EXTRA.values() for name in names
            if not (root / "src" / name).is_file()]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
    options = parser.parse_args()
    problems, count = check_extra(options.root), 0
    for path in project_files(options.root, (".h", ".cc")):
        module = module_of(path)
        if module:
            count += 1
            problems += check_file(options.root, path, module)
    return report("layers", problems, f"{count} files")


if __name__ == "__main__":
    sys.exit(main())
