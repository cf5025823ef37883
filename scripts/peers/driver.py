"""Worker processes: one engine each, asked and answered in lines of JSON."""

import json
import math
import os
import select
import subprocess
import sys
from array import array
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
# A hang must not hold up the others for ever; the slowest answers take some minutes.
PATIENCE_S = 1800


class Failed(Exception):
    """An engine, or the whole run, cannot go on; one sentence says why."""


class Worker:
    """An engine in a process of its own, on some of the processor's cores."""

    def __init__(self, name, command, cores, threads, log):
        self.name, self.log = name, log
        with open(log, "w") as errors:
            self.process = subprocess.Popen(
                [str(part) for part in command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                encoding="utf-8",
                env=environment(threads),
                preexec_fn=(lambda: os.sched_setaffinity(0, cores)) if cores else None,
            )
        try:
            ready = self.hear()
        except Failed:
            self.close()
            raise
        self.engine, self.load_s = ready["ready"], ready["load_s"]

    def ask(self, cmd, **request):
        try:
            self.process.stdin.write(json.dumps({"cmd": cmd, **request}) + "\n")
            self.process.stdin.flush()
        except OSError:
            pass
        return self.hear()

    def hear(self):
        readable, _, _ = select.select([self.process.stdout], [], [], PATIENCE_S)
        line = self.process.stdout.readline() if readable else ""
        if not line:
            self.close(patience_s=5 if readable else 0)
            said = self.log.read_text("utf-8", "replace").strip().splitlines()
            how = said[-1] if said else f"it ended with {self.process.returncode}"
            raise Failed(how if readable else f"no answer in {PATIENCE_S} s")
        answer = json.loads(line)
        if "error" in answer:
            raise Failed(answer["error"])
        return answer

    def close(self, patience_s=10):
        try:
            self.process.stdin.close()
        except OSError:
            # It ended with a request of ours unread.
            pass
        try:
            self.process.wait(timeout=patience_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()


def environment(threads):
    """The environment of a worker with so many threads."""
    found = dict(os.environ)
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS"):
        found[name] = str(threads)
    found["TOKENIZERS_PARALLELISM"] = "true" if threads > 1 else "false"
    # Settings of this shell that would choose kernels for a library.
    for name in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):
        found.pop(name, None)
    found["HF_HUB_OFFLINE"] = "1"
    return found


def cores():
    """The cores that we may use; none where the system does not tell."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None


def build_peer(features=()):
    """Builds the Rust example `peer`; gives its path."""
    command = ["cargo", "build", "--release", "--locked", "--quiet", "-p", "pkm-embed"]
    command += ["--example", "peer"]
    if features:
        command += ["--features", ",".join(features)]
    try:
        done = subprocess.run(command, cwd=ROOT)
    except FileNotFoundError:
        raise Failed("`cargo` is not installed")
    if done.returncode != 0:
        raise Failed("the example `peer` of pkm-embed could not be built")
    target = os.environ.get("CARGO_TARGET_DIR", ROOT / "target")
    return Path(ROOT, target) / "release" / "examples" / "peer"


def ways(peer):
    """How our engine can run here: name and arguments of each way, the default first."""
    done = subprocess.run([peer, "--list"], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def model_folder(root, name):
    """Where scripts/fetch-model put the model."""
    folder = root / name
    if not folder.is_dir():
        raise Failed(f"`{name}` is missing; run: scripts/fetch-model {name} --into {root}")
    return folder


def manifest(name):
    """The manifest of a model that the engines of others can run here."""
    path = ROOT / "models" / f"{name}.toml"
    if not path.exists():
        raise Failed(f"no model is called `{name}`")
    try:
        import tomllib
    except ImportError:
        # Python 3.10 and older have no TOML reader of their own; pip carries one.
        from pip._vendor import tomli as tomllib
    found = tomllib.loads(path.read_text("utf-8"))
    if found["architecture"] not in ("bert", "xlm-roberta") or found["pooling"] != "mean":
        raise Failed(f"`{name}` is no BERT with mean pooling; only such are run in other engines")
    return found


def read_vectors(path, n_vectors):
    """The vectors that a worker wrote."""
    values = array("f")
    values.frombytes(Path(path).read_bytes())
    if sys.byteorder == "big":
        values.byteswap()
    width = len(values) // n_vectors
    return [values[start : start + width] for start in range(0, len(values), width)]


def cosine(one, other):
    """The cosine of two vectors, in double precision."""
    dot = math.fsum(x * y for x, y in zip(one, other))
    lengths = math.fsum(x * x for x in one) * math.fsum(x * x for x in other)
    return dot / math.sqrt(lengths)
