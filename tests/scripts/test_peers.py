"""The parts of scripts/bench-peers and scripts/check-parity that need none of the engines:
python3 tests/scripts/test_peers.py
"""

import ctypes
import subprocess
import sys
import tempfile
import unittest
from array import array
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
sys.path.insert(0, str(SCRIPTS))

from peers import driver, environment, texts  # noqa: E402

loader = SourceFileLoader("bench_peers", str(SCRIPTS / "bench-peers"))
bench = module_from_spec(spec_from_loader(loader.name, loader))
loader.exec_module(bench)

TOKENIZER = '{"model": {"type": "WordPiece", "vocab": {%s}}}'
WORDS = [f"{a}{b}{c}" for a in "abcdef" for b in "aeiou" for c in "klmnr"]


def count(found):
    """A tokenizer with one token a word, two for `bad` words, and two around them."""
    return [2 + sum(2 if word == WORDS[3] else 1 for word in text.split()) for text in found]


class Texts(unittest.TestCase):
    def words(self, counted=count):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "tokenizer.json"
            path.write_text(TOKENIZER % ", ".join(f'"{word}": 1' for word in WORDS))
            return texts.Words(path, counted)

    def test_a_text_has_as_many_tokens_as_asked(self):
        words = self.words()
        self.assertNotIn(WORDS[3], words.languages[0])
        for length in (5, 32, 512):
            self.assertEqual(count(words.texts([length], 1)), [length])

    def test_a_text_that_comes_out_longer_is_an_error(self):
        words = self.words()
        words.count = lambda found: [n + 1 for n in count(found)]
        with self.assertRaisesRegex(ValueError, "a text of 32 tokens came out with 33"):
            words.texts([32], 1)

    def test_the_sets_are_the_same_in_every_run(self):
        first, second = (texts.measured(self.words(), 512) for _ in range(2))
        self.assertEqual(first, second)
        self.assertEqual(list(first), ["32", "128", "256", "512", "mixed"])
        lengths = sorted(count(first["mixed"]))
        self.assertEqual((lengths[0], lengths[-1], len(lengths)), (5, 512, texts.N_MIXED))
        self.assertTrue(50 < lengths[len(lengths) // 2] < 85)
        self.assertEqual(list(texts.measured(self.words(), 128)), ["32", "128", "mixed"])

    def test_the_question_has_eight_tokens(self):
        words = self.words()
        question = texts.question(words, lambda text: 4 + len(text.split()))
        self.assertEqual(len(question.split()), 4)

    def test_korean_and_english_are_compared_at_every_length(self):
        found = texts.compared(count, 512, 300)
        self.assertEqual(found, texts.compared(count, 512, 300))
        self.assertEqual({kind for kind, _ in found}, {kind for kind, _ in texts.KINDS})
        lengths = sorted(count([text for _, text in found]))
        self.assertLess(lengths[0], 4)
        self.assertGreater(lengths[-1], 400)
        for letters in ("가-힣", "a-z", "\u1100-\u1112", "🙂"):
            self.assertTrue(any(texts.re.search(f"[{letters}]", text) for _, text in found))

    def test_a_text_is_read_as_our_encoder_reads_it(self):
        self.assertEqual(texts.as_read(" \u1112\u1161\u11ab\u1100\u1173\u11af\n", None), "한글")
        self.assertEqual(texts.as_read("abcdefg hi", 3), "abc def g hi")
        self.assertEqual(texts.as_read("abc-def", 3), "abc-def")


class Driver(unittest.TestCase):
    def test_vectors_come_back_from_a_file(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "vectors"
            path.write_bytes(array("f", [1.0, 0.0, 0.5, 0.5]).tobytes())
            one, other = driver.read_vectors(path, 2)
        self.assertEqual(list(other), [0.5, 0.5])
        self.assertAlmostEqual(driver.cosine(one, other), 0.5**0.5)

    def test_only_models_that_every_engine_runs_are_taken(self):
        self.assertEqual(driver.manifest("all-minilm-l6-v2")["dimension"], 384)
        for name in ("qwen3-embedding-0.6b", "kure-v1"):
            with self.assertRaisesRegex(driver.Failed, "is no BERT with mean pooling"):
                driver.manifest(name)

    def worker(self, folder, program):
        command = [sys.executable, "-c", program]
        return driver.Worker("test", command, driver.cores(), 1, Path(folder) / "log")

    def test_a_worker_answers_fails_and_ends(self):
        program = (
            "import json, os, sys\n"
            "print(json.dumps({'ready': os.environ['OMP_NUM_THREADS'], 'load_s': 0}), flush=True)\n"
            "for line in sys.stdin:\n"
            "    n = json.loads(line)['n']\n"
            "    if n == 0: sys.exit('out of numbers')\n"
            "    answer = {'error': 'no'} if n == 1 else {'n': n}\n"
            "    print(json.dumps(answer), flush=True)\n"
        )
        with tempfile.TemporaryDirectory() as folder:
            worker = self.worker(folder, program)
            try:
                self.assertEqual(worker.engine, "1")
                self.assertEqual(worker.ask("count", n=3), {"n": 3})
                with self.assertRaisesRegex(driver.Failed, "^no$"):
                    worker.ask("count", n=1)
                with self.assertRaisesRegex(driver.Failed, "out of numbers"):
                    worker.ask("count", n=0)
            finally:
                worker.close()

    def test_a_worker_that_does_not_start_says_why(self):
        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaisesRegex(driver.Failed, "no such engine"):
                self.worker(folder, "import sys; sys.exit('no such engine')")


class Environment(unittest.TestCase):
    @unittest.skipUnless(sys.platform == "linux", "only there is torch built for CUDA")
    def test_a_library_loads_without_those_it_is_linked_to(self):
        with tempfile.TemporaryDirectory() as folder:
            folder = Path(folder)

            def build(name, source, *options):
                (folder / "source.c").write_text(source)
                command = ["cc", "-shared", "-fPIC", "-w", "-o", name, "source.c", *options]
                subprocess.run(command, cwd=folder, check=True)

            # One library names the versions of what it gives, the other does not.
            (folder / "versions").write_text("PKM_1 { global: pkmVersioned; };\n")
            versions = ["-Wl,--version-script=versions", "-Wl,-soname,libpkm-one.so"]
            build("libpkm-one.so", "int pkmVersioned(void) { return 1; }", *versions)
            other = "int cuPkm(void) { return 1; }"
            build("libpkm-two.so", other, "-Wl,-soname,libpkm-two.so")
            asks = "int pkmVersioned(), cuPkm(); int both(void) { return pkmVersioned() + cuPkm(); }"
            needs = ["-L.", "-lpkm-one", "-lpkm-two", "-Wl,-rpath,$ORIGIN", "-Wl,-z,now"]
            build("libtorch_cpu.so", asks, *needs)
            build("libc10_cuda.so", "int nothing(void) { return 0; }")
            for gone in ("libpkm-one.so", "libpkm-two.so"):
                (folder / gone).unlink()
            with self.assertRaises(OSError):
                ctypes.CDLL(str(folder / "libtorch_cpu.so"))
            environment.stand_in_for_cuda(folder)
            self.assertEqual(ctypes.CDLL(str(folder / "libtorch_cpu.so")).both(), 2 * 999)


class Report(unittest.TestCase):
    def test_the_default_and_the_best_of_f32_are_compared(self):
        def run(*precisions):
            names = ["ours-auto", "st-f32", "ours-avx512", "ours-avx2"]
            found = zip(names, precisions)
            return {"engines": {name: {"engine": {"precision": p}} for name, p in found}}

        in_bf16, in_f32 = run("bf16", "f32", "f32", "f32"), run("f32", "f32", "f32", "f32")
        self.assertEqual(bench.compared_ways(in_bf16), ["ours-auto", "ours-avx512"])
        self.assertEqual(bench.compared_ways(in_f32), ["ours-auto"])

    def test_a_ratio_above_one_means_that_ours_is_faster(self):
        ours = {"query_s": 0.002, "tokens_per_s": {"32": 3000.0}}
        theirs = {"query_s": 0.005, "tokens_per_s": {"32": 1500.0}}
        self.assertEqual(list(bench.ratios(ours, theirs, ["32"])), [2.5, 2.0])


if __name__ == "__main__":
    unittest.main()
