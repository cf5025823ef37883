"""A Python with the engines of others in it, and the models as they read them."""

import ctypes
import json
import re
import subprocess
import tempfile
import venv
from hashlib import sha256
from pathlib import Path

HERE = Path(__file__).resolve().parent

# What is pinned, what else it needs, and what must work then. On Linux, torch on the Python index
# is built for CUDA and asks for gigabytes that a CPU does not need: so it, and what depends on it,
# comes without its dependencies.
PARTS = {
    "torch": {
        "alone": ["torch==2.15.0"],
        "needs": ["filelock", "fsspec", "jinja2", "networkx", "numpy", "setuptools", "sympy",
                  "typing-extensions"],
        "works": "import torch; torch.ones(2, 2) @ torch.ones(2, 2)",
    },
    "sentence-transformers": {
        "alone": ["sentence-transformers==6.2.0", "transformers==5.24.0"],
        "needs": ["huggingface-hub>=1.31,<3", "packaging", "pyyaml", "regex", "safetensors>=0.8",
                  "scikit-learn", "scipy", "tokenizers==0.23.3", "tqdm", "typer"],
        "works": "import sentence_transformers",
    },
    "onnxruntime": {
        "alone": [],
        "needs": ["onnxruntime==1.32.0", "onnx==1.23.2", "tokenizers==0.23.3"],
        "works": "import onnx, onnxruntime",
    },
    "openvino": {
        "alone": [],
        "needs": ["openvino==2026.4.1", "tokenizers==0.23.3"],
        "works": "import openvino",
    },
}  # fmt: skip
# Small enough to be had whole; it registers the GPU code when torch is loaded.
CUDA_RUNTIME = "nvidia-cuda-runtime==13.2.*"

# What each engine needs to run, and to have its model made.
SENTENCES = ("torch", "sentence-transformers")
GRAPHS = (*SENTENCES, "onnxruntime")
ENGINES = {
    "st-f32": SENTENCES,
    "st-bf16": SENTENCES,
    "ort-f32": GRAPHS,
    "ort-int8": GRAPHS,
    "openvino-f32": (*GRAPHS, "openvino"),
    "openvino-bf16": (*GRAPHS, "openvino"),
}
# The graph that an engine runs, where it runs one.
GRAPH_OF = {"ort-f32": "onnx", "ort-int8": "int8", "openvino-f32": "onnx", "openvino-bf16": "onnx"}


class Environment:
    """A virtual environment in `folder`, which may have been there before."""

    def __init__(self, folder, say):
        self.folder, self.python, self.say = folder, folder / "bin" / "python", say

    def install(self, engines):
        """Installs what `engines` need; gives the reason for each that cannot be had."""
        if not self.python.exists():
            self.say(f"making a virtual environment in {self.folder}")
            venv.create(self.folder, with_pip=True)
        needed = {part for engine in engines for part in ENGINES[engine]}
        faults = {part: self.install_part(part) for part in PARTS if part in needed}
        missing = {}
        for engine in engines:
            for part in ENGINES[engine]:
                if faults[part]:
                    missing.setdefault(engine, f"{part}: {faults[part]}")
        return missing

    def install_part(self, name):
        part = PARTS[name]
        fault = self.fault_of(part)
        if fault is None:
            return None
        self.say(f"installing {name}")
        fault = self.pip("--no-deps", *part["alone"]) if part["alone"] else None
        fault = fault or self.pip(*part["needs"]) or self.fault_of(part)
        if fault and name == "torch":
            fault = self.pip("--no-deps", CUDA_RUNTIME) or self.stand_in() or self.fault_of(part)
        return fault

    def fault_of(self, part):
        """Why the part does not work as it is pinned, or None."""
        pins = dict(pin.split("==") for pin in part["alone"] + part["needs"] if "==" in pin)
        check = (
            "import importlib.metadata, sys\n"
            f"for name, pin in {pins!r}.items():\n"
            "    found = importlib.metadata.version(name).split('+')[0]\n"
            "    if found != pin: sys.exit(f'{name} is {found}, not {pin}')\n"
            f"{part['works']}\n"
        )
        return self.run("-c", check)

    def pip(self, *requirements):
        return self.run(
            "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-cache-dir",
            "--only-binary", ":all:", *requirements,
        )  # fmt: skip

    def run(self, *arguments):
        """Runs Python; gives the last line of what it complained of if it failed."""
        done = subprocess.run([self.python, *arguments], capture_output=True, text=True)
        if done.returncode == 0:
            return None
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        errors = [line for line in lines if line.startswith("ERROR")]
        return (errors or lines or [f"it ended with {done.returncode}"])[-1]

    def stand_in(self):
        """Puts libraries that do nothing in place of the CUDA libraries that torch is linked to.

        Without them it does not even load; on a CPU it calls none of them. Gives a fault or None.
        """
        found = subprocess.run(
            [self.python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
            capture_output=True,
            text=True,
        )
        libraries = Path(found.stdout.strip()) / "torch" / "lib"
        try:
            stand_in_for_cuda(libraries)
        except FileNotFoundError as error:
            return f"without `{error.filename}` its CUDA libraries cannot be stood in for"
        except (OSError, subprocess.CalledProcessError) as error:
            return str(error)
        return None

    def convert(self, folder, engines, into):
        """Makes the model in `folder` as `engines` read it; gives the fault of each that has one."""
        form = "graphs" if any(engine in GRAPH_OF for engine in engines) else "weights"
        digest = sha256((HERE / "export.py").read_bytes() + (HERE / "weights.py").read_bytes())
        for weights in sorted(folder.glob("model.*")):
            digest.update(f"{weights.stat().st_size} {weights.stat().st_mtime_ns}".encode())
        digest = digest.hexdigest()
        # Whoever has the graphs has the weights.
        for stamp in {into / f"made-{form}.json", into / "made-graphs.json"}:
            made = json.loads(stamp.read_text()) if stamp.exists() else {}
            if made.get("digest") == digest:
                break
        else:
            self.say(f"converting {folder.name}")
            into.mkdir(parents=True, exist_ok=True)
            command = [self.python, HERE / "export.py", folder, into, form]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode != 0:
                reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
                return dict.fromkeys(engines, f"its model could not be made: {reason}")
            made = {"digest": digest, "faults": json.loads(done.stdout.splitlines()[-1])}
            if not made["faults"]:
                (into / f"made-{form}.json").write_text(json.dumps(made))
        faults = {engine: made["faults"].get(GRAPH_OF.get(engine)) for engine in engines}
        return {engine: fault for engine, fault in faults.items() if fault}


def stand_in_for_cuda(libraries):
    """Makes, in the folder of torch's libraries, a library for each one that is missing there."""
    wanted, of_version, defined = {}, {}, set()
    unversioned = set()
    for path in sorted([*libraries.glob("libtorch*.so"), libraries / "libc10_cuda.so"]):
        command = ["objdump", "-p", "-T", path]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        for name in re.findall(r"^  NEEDED +(\S+)$", text, re.MULTILINE):
            if not (libraries / name).exists() and not loads(name):
                wanted.setdefault(name, {})
        for name, versions in re.findall(r"required from (\S+):\n((?:    0x.*\n)+)", text):
            of_version.update(dict.fromkeys(re.findall(r"(\S+)$", versions, re.MULTILINE), name))
        for line in re.findall(r"^[0-9a-f]{16} .*$", text, re.MULTILINE):
            *_, symbol = line.split()
            if "*UND*" not in line:
                defined.add(symbol)
            elif version := re.search(r"\((\S+)\)", line):
                library = of_version.get(version[1])
                if library in wanted:
                    wanted[library].setdefault(version[1], set()).add(symbol)
            else:
                unversioned.add(symbol)
    # Nothing says which library such a symbol is from, and nothing asks.
    loose = {name for name in unversioned - defined if re.match("cu|nccl", name)}
    for library, versions in wanted.items():
        symbols = set().union(*versions.values()) if versions else loose
        with tempfile.TemporaryDirectory() as work:
            source, script = Path(work) / "empty.c", Path(work) / "versions"
            source.write_text("".join(f"int {name}(void) {{ return 999; }}\n" for name in symbols))
            script.write_text(
                "".join(f"{v} {{ global: {'; '.join(names)}; }};\n" for v, names in versions.items())
            )
            command = ["cc", "-shared", "-fPIC", "-w", f"-Wl,-soname,{library}", source]
            if versions:
                command.append(f"-Wl,--version-script={script}")
            subprocess.run([*command, "-o", libraries / library], capture_output=True, check=True)


def loads(library):
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True
