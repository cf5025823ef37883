"""Starts the server for a real client, and counts what held and what did not."""

import contextlib
import json
import os
import subprocess
import tempfile
import traceback
import unicodedata
from pathlib import Path

from mcp import Client, MCPError, StdioServerParameters

FIXTURES = json.loads((Path(__file__).resolve().parent.parent / "fixtures.json").read_text("utf-8"))
MODEL = "multilingual-e5-small-q4"

passed = 0
failed = []


@contextlib.contextmanager
def check(what):
    """One line of output, whatever happens inside."""
    global passed
    try:
        yield
    except Exception:
        failed.append(what)
        print(f"FAILED {what}", flush=True)
        traceback.print_exc()
    else:
        passed += 1
        print(f"ok {what}", flush=True)


def summary():
    """The closing line, and the exit code."""
    for what in failed:
        print(f"failed: {what}")
    print(f"{passed} passed, {len(failed)} failed", flush=True)
    return 1 if failed else 0


class Place:
    """A data folder of its own, and how to start the server on it."""

    def __init__(self, binary, models):
        self.binary = str(binary)
        self.models = str(models)
        self.folder = tempfile.TemporaryDirectory(prefix="pkm-clients-")
        self.root = Path(self.folder.name)
        (self.root / "no-models").mkdir()
        self.env = {
            "HOME": str(self.root),
            "XDG_DATA_HOME": str(self.root / "share"),
            "XDG_CONFIG_HOME": str(self.root / "config"),
        }

    def arguments(self, *command, models=None):
        return ["--data", str(self.root / "data"), "--models", models or self.models, "--model", MODEL, *command]

    def client(self, mode="legacy", with_model=True):
        models = None if with_model else str(self.root / "no-models")
        server = StdioServerParameters(command=self.binary, args=self.arguments("serve", models=models), env=self.env)
        return Client(server, mode=mode)

    def run(self, *command, stdin=b"", timeout=120):
        """Runs a command of the binary; for `serve`, `stdin` is all that the client says."""
        return subprocess.run(
            [self.binary, *self.arguments(*command)],
            input=stdin,
            capture_output=True,
            timeout=timeout,
            env={"PATH": os.environ["PATH"], **self.env},
        )


async def ask(client, tool, progress=None, **arguments):
    """The structured content of a call that must succeed."""
    result = await client.call_tool(tool, arguments, progress_callback=progress)
    assert not result.is_error, result.content[0].text
    return result.structured_content


async def refused(client, tool, **arguments):
    """Structured content and text of a call that must be refused by a result."""
    result = await client.call_tool(tool, arguments)
    assert result.is_error, result.structured_content
    return result.structured_content, result.content[0].text


async def error_of(call):
    """The protocol error that a call must end with."""
    try:
        answer = await call
    except MCPError as error:
        return error
    raise AssertionError(f"no error but {answer}")


async def add_fixtures(client):
    """Adds the notes; gives their ids by title."""
    ids = {}
    for note in FIXTURES["notes"]:
        ids[note["title"]] = (await ask(client, "add_note", **note))["id"]
    return ids


async def settle(client):
    """Until everything is embedded."""
    for _ in range(20):
        job = await ask(client, "reindex_notes", wait_seconds=55)
        if job["state"] == "done" and (await ask(client, "index_status"))["pending"] == 0:
            return
    raise AssertionError(f"not embedded in time: {job}")


def titles(answer):
    return [match["title"] for match in answer["matches"]]


def decomposed(text):
    return unicodedata.normalize("NFD", text)


def long_note():
    """20,000 characters with a marker sentence, alone on its line, at each place that the fixtures name."""
    lines, length, filler = [], 0, 0
    for marker in [*FIXTURES["markers"], {"at": 20_000, "sentence": "The end."}]:
        while length < marker["at"]:
            line = f"{FIXTURES['filler'][filler % len(FIXTURES['filler'])]} ({filler})"
            filler += 1
            lines.append(line)
            length += len(line) + 1
        lines.append(marker["sentence"])
        length += len(marker["sentence"]) + 1
    return "\n".join(lines)
