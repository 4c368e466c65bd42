#!/usr/bin/env python3
"""File, environment and --set reach the managers of the worker processes, and their flight records can be read."""
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

KVFERRY = os.environ["KVFERRY_BINARY"]


def kvferry(*words: str, **more: str) -> subprocess.CompletedProcess:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("KVFERRY_")}
    return subprocess.run([KVFERRY, *words], capture_output=True, text=True, timeout=240, env=clean | more)


def records_of(folder: Path, most: int) -> None:
    records = sorted(folder.glob("*.json"))
    sides = {record.name.split("-")[0] for record in records}
    if sides != {"prefill", "decode"}:
        sys.exit(f"flight records of prefill and decode were wanted, there are: {[r.name for r in records]}")
    for record in records:
        events = [e for e in json.loads(record.read_text())["traceEvents"] if e.get("ph") != "M"]
        if not 0 < len(events) <= most:
            sys.exit(f"{record.name} holds {len(events)} events; recorder.events is {most}")


with tempfile.TemporaryDirectory() as name:
    folder = Path(name)
    settings = folder / "kvferry.toml"
    settings.write_text("[recorder]\nevents = 64\n")
    (folder / "records").mkdir()
    done = kvferry("demo", "--file", str(settings), "--set", "recorder.events=16", "--json",
                   KVFERRY_RECORDER_FOLDER=str(folder / "records"))
    if done.returncode != 0:
        sys.exit(f"demo: exit status {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    records_of(folder / "records", 16)

    shown = kvferry("config", "--file", str(settings), "--json", KVFERRY_DEADLINES_GRACE="3s")
    rows = {row["name"]: row for row in json.loads(shown.stdout.splitlines()[-1])["settings"]}
    for setting, value, origin in (("recorder.events", "64", str(settings)), ("deadlines.grace", "3s", "KVFERRY_"),
                                   ("deadlines.drain", "5s", "default")):
        row = rows[setting]
        if str(row["value"]) != value or origin not in row["origin"]:
            sys.exit(f"kvferry config shows {row}, wanted {value} from {origin}")

    for words, named in ((("--set", "deadlines.drain=soon"), "deadlines.drain"),
                         (("--set", "limits.romms=5"), "limits.rooms")):
        done = kvferry("demo", *words)
        if done.returncode != 2 or named not in done.stderr:
            sys.exit(f"demo {words}: exit status {done.returncode}, said: {done.stderr}")
