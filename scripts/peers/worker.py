"""The engines of others behind the protocol of the Rust example `peer` of pkm-embed:
worker.py FOLDER ENGINE JSON

FOLDER is what export.py made, ENGINE a key of ENGINES below, JSON holds `threads`, `window` and
`prefixes`. A line of JSON in, a line of JSON out, until the input ends.
"""

import json
import os
import sys
import time

START = time.perf_counter()


def tokenizer_of(folder, window):
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(os.path.join(folder, "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(window)
    return tokenizer


class SentenceTransformers:
    """sentence-transformers, which sorts and fills up by itself."""

    def __init__(self, folder, precision, threads, window):
        import torch
        from sentence_transformers import SentenceTransformer
        from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

        torch.set_num_threads(threads)
        transformer = Transformer(folder)
        transformer.max_seq_length = window
        width = json.load(open(os.path.join(folder, "config.json")))["hidden_size"]
        self.model = SentenceTransformer(
            modules=[transformer, Pooling(width, pooling_mode="mean")], device="cpu"
        )
        # Faster than autocast, above all for one short text, and about as exact.
        self.model.to(torch.bfloat16 if precision == "bf16" else torch.float32)
        self.tokenizer = tokenizer_of(folder, window)
        self.versions = versions("sentence-transformers", "torch", "transformers")

    def embed(self, texts, batch, lanes):
        return self.model.encode(
            texts, batch_size=batch, normalize_embeddings=True, show_progress_bar=False
        )

    def count(self, texts):
        return sum(len(tokens.ids) for tokens in self.tokenizer.encode_batch(texts))


class Batches:
    """What the two runners of ONNX graphs share: sorting, filling up, putting back in order."""

    def __init__(self, folder, window):
        import numpy

        self.numpy = numpy
        self.tokenizer = tokenizer_of(folder, window)

    def embed(self, texts, batch, lanes):
        tokens = [tokens.ids for tokens in self.tokenizer.encode_batch_fast(texts)]
        order = sorted(range(len(tokens)), key=lambda text: -len(tokens[text]))
        batches = [order[start : start + batch] for start in range(0, len(order), batch)]
        found = self.run([self.inputs([tokens[text] for text in batch]) for batch in batches], lanes)
        vectors = self.numpy.empty((len(texts), found[0].shape[1]), "float32")
        for rows, part in zip(batches, found):
            vectors[rows] = part
        return vectors

    def inputs(self, tokens):
        shape = len(tokens), max(map(len, tokens))
        ids = self.numpy.zeros(shape, "int64")
        mask = self.numpy.zeros(shape, "int64")
        for row, found in enumerate(tokens):
            ids[row, : len(found)] = found
            mask[row, : len(found)] = 1
        return {"input_ids": ids, "attention_mask": mask}

    def count(self, texts):
        return sum(len(tokens.ids) for tokens in self.tokenizer.encode_batch_fast(texts))


class OnnxRuntime(Batches):
    def __init__(self, folder, precision, threads, window):
        super().__init__(folder, window)
        import onnxruntime

        self.onnxruntime = onnxruntime
        name = {"f32": "model.onnx", "int8": "model-int8.onnx"}[precision]
        self.path, self.threads = os.path.join(folder, name), threads
        self.together, self.apart, self.pool = self.session(threads), None, None
        self.versions = versions("onnxruntime", "tokenizers")

    def session(self, threads):
        options = self.onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        providers = ["CPUExecutionProvider"]
        return self.onnxruntime.InferenceSession(self.path, options, providers=providers)

    def run(self, batches, lanes):
        if not lanes:
            return [self.together.run(None, batch)[0] for batch in batches]
        if self.apart is None:
            from concurrent.futures import ThreadPoolExecutor

            self.apart, self.pool = self.session(1), ThreadPoolExecutor(self.threads)
        return list(self.pool.map(lambda batch: self.apart.run(None, batch)[0], batches))


class OpenVino(Batches):
    def __init__(self, folder, precision, threads, window):
        super().__init__(folder, window)
        import openvino

        self.openvino, self.core, self.threads = openvino, openvino.Core(), threads
        can = self.core.get_property("CPU", "OPTIMIZATION_CAPABILITIES")
        if precision == "bf16" and "BF16" not in can:
            raise RuntimeError("OpenVINO has no bf16 on this processor")
        self.path, self.precision = os.path.join(folder, "model.onnx"), precision
        self.together = self.compiled("LATENCY", 1).create_infer_request()
        self.apart = None
        self.versions = versions("openvino", "tokenizers")

    def compiled(self, hint, streams):
        settings = {
            "PERFORMANCE_HINT": hint,
            "NUM_STREAMS": streams,
            "INFERENCE_NUM_THREADS": self.threads,
            "INFERENCE_PRECISION_HINT": self.precision,
        }
        return self.core.compile_model(self.path, "CPU", settings)

    def run(self, batches, lanes):
        if not lanes:
            return [self.together.infer(batch)[0].copy() for batch in batches]
        if self.apart is None:
            compiled = self.compiled("THROUGHPUT", self.threads)
            self.apart = self.openvino.AsyncInferQueue(compiled, self.threads)
        found = [None] * len(batches)

        def keep(request, place):
            found[place] = request.get_output_tensor(0).data.copy()

        self.apart.set_callback(keep)
        for place, batch in enumerate(batches):
            self.apart.start_async(batch, place)
        self.apart.wait_all()
        return found


ENGINES = {
    "st-f32": (SentenceTransformers, "f32"),
    "st-bf16": (SentenceTransformers, "bf16"),
    "ort-f32": (OnnxRuntime, "f32"),
    "ort-int8": (OnnxRuntime, "int8"),
    "openvino-f32": (OpenVino, "f32"),
    "openvino-bf16": (OpenVino, "bf16"),
}


def versions(*packages):
    from importlib.metadata import version

    return {package: version(package) for package in packages}


def peak_rss_bytes():
    try:
        with open("/proc/self/status") as status:
            for line in status:
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        return None


class Worker:
    def __init__(self, folder, name, settings):
        kind, precision = ENGINES[name]
        self.prefixes = settings["prefixes"]
        self.engine = kind(folder, precision, settings["threads"], settings["window"])

    def answer(self, request):
        if request["cmd"] == "embed":
            return self.embed(request)
        if request["cmd"] == "query":
            return self.query(request)
        raise ValueError(f"`{request['cmd']}` is unknown")

    def embed(self, request):
        texts, batch = request["texts"], request.get("batch") or 32
        wall, cpu = time.perf_counter(), time.process_time()
        # Putting the prefix on is part of the work; ours does it too.
        full = [with_prefix(self.prefixes["passage"], text) for text in texts]
        vectors = self.engine.embed(full, batch, request.get("lanes", False))
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        if request.get("out"):
            vectors.astype("<f4").tofile(request["out"])
        return {
            "wall_s": wall,
            "cpu_s": cpu,
            "n_tokens": self.engine.count(full),
            "peak_rss_bytes": peak_rss_bytes(),
        }

    def query(self, request):
        walls, cpus = [], []
        for _ in range(request["n"]):
            wall, cpu = time.perf_counter(), time.process_time()
            full = with_prefix(self.prefixes["query"], request["text"])
            self.engine.embed([full], 1, False)
            walls.append(time.perf_counter() - wall)
            cpus.append(time.process_time() - cpu)
        middle = request["n"] // 2
        n_tokens = self.engine.count([full])
        return {"wall_s": sorted(walls)[middle], "cpu_s": sorted(cpus)[middle], "n_tokens": n_tokens}


def with_prefix(prefix, text):
    # No blank at the end, which some tokenizers give a token of its own.
    return (prefix + text.strip()).strip()


def main():
    # Libraries may write what they like to stdout; the answers have a line of their own.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    folder, name, settings = sys.argv[1:]
    try:
        worker = Worker(folder, name, json.loads(settings))
        ready = {"ready": worker.engine.versions, "load_s": time.perf_counter() - START}
    except Exception as error:
        ready = {"error": f"{type(error).__name__}: {error}"}
    print(json.dumps(ready), file=answers, flush=True)
    if "error" in ready:
        sys.exit(1)
    for line in sys.stdin:
        try:
            answer = worker.answer(json.loads(line))
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
