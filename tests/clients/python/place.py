"""Starts the server in a data folder of its own, and counts what held and what did not. Needs no client."""

import contextlib
import json
import os
import re
import subprocess
import tempfile
import threading
import traceback
from pathlib import Path

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

    def run(self, *command, stdin=b"", timeout=120):
        """Runs a command of the binary; for `serve`, `stdin` is all that the client says."""
        return subprocess.run(
            [self.binary, *self.arguments(*command)],
            input=stdin,
            capture_output=True,
            timeout=timeout,
            env={"PATH": os.environ["PATH"], **self.env},
        )

    @contextlib.contextmanager
    def over_http(self):
        """The address of a server that listens on a free port; it must end by itself when asked to."""
        command = [self.binary, *self.arguments("serve", "--http", "127.0.0.1:0")]
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, env=self.env) as server:
            said = []
            for line in server.stderr:
                said.append(line.decode())
                if address := re.search(r"listening on (http://\S+)", said[-1]):
                    break
            else:
                raise AssertionError("the server does not listen: " + "".join(said))
            # Nobody reads its log from here on, and it must not wait for that.
            threading.Thread(target=lambda: [None for _ in server.stderr], daemon=True).start()
            try:
                yield address[1]
            finally:
                server.terminate()
                try:
                    code = server.wait(timeout=60)
                except subprocess.TimeoutExpired:
                    server.kill()
                    raise
            assert code == 0, f"the server ended with {code}"


def long_note(size=20_000):
    """`size` characters with a marker sentence, alone on its line, at each place that the fixtures name."""
    lines, length, filler = [], 0, 0
    markers = [marker for marker in FIXTURES["markers"] if marker["at"] < size]
    for marker in [*markers, {"at": size, "sentence": "The end."}]:
        while length < marker["at"]:
            line = f"{FIXTURES['filler'][filler % len(FIXTURES['filler'])]} ({filler})"
            filler += 1
            lines.append(line)
            length += len(line) + 1
        lines.append(marker["sentence"])
        length += len(marker["sentence"]) + 1
    return "\n".join(lines)
