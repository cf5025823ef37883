#!/usr/bin/env python3
"""Full disks, read-only folders, killed processes: run.py PATH/TO/pkm [MODELS]

Puts data folders on small file systems of its own (tmpfs), so it needs Linux and the right to
mount: as root, or else in a user namespace of its own. With the folder MODELS,
search by meaning is tried as well. Exits 0 when all held, 1 when something did not, 77 when this
machine does not let it mount.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SKIPPED = 77
IN_NAMESPACE = "PKM_FAULTS_IN_NAMESPACE"


class Failed(Exception):
    """A promise that was not kept."""


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit("usage: run.py PATH/TO/pkm [MODELS]")
    binary = Path(sys.argv[1]).resolve()
    models = Path(sys.argv[2]).resolve() if len(sys.argv) == 3 else None
    if not binary.is_file():
        sys.exit(f"run.py: there is no `{binary}`; build it with `cargo build -p pkm`")
    enter_namespace()
    failures = 0
    faults = FAULTS + FAULTS_WITH_MODEL if models else FAULTS
    for fault in faults:
        with tempfile.TemporaryDirectory(prefix="pkm-faults-") as folder:
            place = Place(binary, Path(folder))
            if fault in FAULTS_WITH_MODEL:
                place.models = models
            try:
                fault(place)
                print(f"ok      {fault.__name__}")
            except Failed as failure:
                failures += 1
                print(f"FAILED  {fault.__name__}: {failure}")
            finally:
                place.close()
    sys.exit(1 if failures else 0)


def enter_namespace():
    """Goes on in a mount namespace of its own, so that no mount outlives this process."""
    if os.environ.get(IN_NAMESPACE):
        return
    environment = {**os.environ, IN_NAMESPACE: "1"}
    for unshare in (["unshare", "--mount"], ["unshare", "--map-root-user", "--mount"]):
        probe = [*unshare, "sh", "-c", "d=$(mktemp -d) && mount -t tmpfs none $d"]
        try:
            possible = subprocess.run(probe, capture_output=True).returncode == 0
        except FileNotFoundError:
            break
        if possible:
            command = [*unshare, sys.executable, *sys.argv]
            sys.exit(subprocess.run(command, env=environment).returncode)
    print("run.py: this machine does not let a test mount a file system", file=sys.stderr)
    sys.exit(SKIPPED)


class Place:
    """A home folder, and a small file system with the data folder on it."""

    def __init__(self, binary, folder):
        self.binary = binary
        self.home = folder / "home"
        self.disk = folder / "disk"
        self.data = self.disk / "pkm"
        # Without a model, unless a test needs one: most faults are those of the disk.
        self.models = self.home / "models"
        self.home.mkdir()
        self.disk.mkdir()
        self.mounted = []

    def mount(self, size, at=None):
        at = at or self.disk
        at.mkdir(exist_ok=True)
        sh("mount", "-t", "tmpfs", "-o", f"size={size}", "none", at)
        self.mounted.append(at)

    def remount(self, options):
        sh("mount", "-o", f"remount,{options}", self.disk)

    def close(self):
        for at in self.mounted:
            sh("umount", "--lazy", at)

    def environment(self):
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "PKM_HOME": str(self.data),
            "PKM_MODELS": str(self.models),
            "PKM_MODEL": "multilingual-e5-small-q4",
        }

    def start(self, *arguments, **options):
        command = [self.binary, *map(str, arguments)]
        return subprocess.Popen(command, env=self.environment(), **options)

    def pkm(self, *arguments, stdin=""):
        command = [self.binary, *map(str, arguments)]
        return subprocess.run(
            command, env=self.environment(), input=stdin, capture_output=True, text=True
        )

    def ok(self, *arguments, stdin=""):
        run = self.pkm(*arguments, stdin=stdin)
        expect(run.returncode == 0, f"{arguments[0]} exited {run.returncode}: {run.stderr.strip()}")
        return run.stdout

    def json(self, *arguments, stdin=""):
        return json.loads(self.ok(*arguments, "--json", stdin=stdin))

    def refused(self, *arguments, stdin="", error, hint):
        """The command fails, once and in words."""
        run = self.pkm(*arguments, stdin=stdin)
        name = " ".join(map(str, arguments))
        expect(run.returncode == 1, f"`{name}` exited {run.returncode}, not 1: {run.stderr}")
        expect(run.stderr.startswith("error: "), f"`{name}` said: {run.stderr}")
        expect(error in run.stderr, f"`{name}` does not say `{error}`: {run.stderr}")
        expect(hint in run.stderr, f"`{name}` gives no hint `{hint}`: {run.stderr}")
        expect(run.stdout == "", f"`{name}` printed data: {run.stdout}")

    def notes(self):
        """Content of every note, by id."""
        ids = [note["id"] for note in self.json("list", "--all")["notes"]]
        return {i: self.ok("get", i) for i in ids}

    def is_sound(self):
        run = self.pkm("doctor")
        expect(run.returncode == 0, f"doctor: {run.stdout} {run.stderr}")


def a_full_disk_refuses_a_note_and_keeps_the_others(place):
    place.mount("3m")
    kept = {}
    for i in range(1000):
        content = text(i, 20_000)
        run = place.pkm("add", "--title", f"note {i}", "--json", stdin=content)
        if run.returncode != 0:
            break
        kept[json.loads(run.stdout)["id"]] = content
    else:
        raise Failed("1000 notes of 20 kB fit into 3 MB")
    expect(len(kept) > 5, f"only {len(kept)} notes fit")
    place.refused("add", "--title", "one more", stdin=text(0, 200_000), **FULL)
    # Reading goes on while the disk is full.
    expect(place.notes() == kept, "notes differ while the disk is full")
    found = place.json("search", "--keyword", "marker3")["matches"]
    expect(len(found) == 1, f"a search on a full disk found {len(found)} notes")
    place.remount("size=64m")
    expect(place.notes() == kept, "notes differ after space was made")
    place.is_sound()
    place.json("add", "--title", "one more", stdin=text(0, 200_000))
    expect(len(place.notes()) == len(kept) + 1, "the note did not go in after space was made")


def a_disk_without_a_byte_left_can_still_be_read(place):
    place.mount("2m")
    i = place.json("add", "--title", "t", stdin="marker0\n")["id"]
    fill = place.data.parent / "fill"
    with open(fill, "wb", buffering=0) as file:
        try:
            while file.write(b"x" * 4096):
                pass
        except OSError:
            pass
    expect(place.ok("get", i) == "marker0\n", "the note cannot be read")
    found = place.json("search", "--keyword", "marker0")["matches"]
    expect(len(found) == 1, f"a search found {len(found)} notes")
    place.refused("add", "--title", "u", stdin="x", **FULL)
    fill.unlink()
    place.json("add", "--title", "u", stdin="x")
    place.is_sound()


def a_full_disk_refuses_an_edit_and_keeps_the_note_as_it_was(place):
    place.mount("2m")
    i = place.json("add", "--title", "t", stdin="as it was\n")["id"]
    big = place.home / "big.md"
    big.write_text(text(1, 3_000_000))
    place.refused("edit", i, "--content", big, **FULL)
    expect(place.ok("get", i) == "as it was\n", "the note changed")
    expect(place.json("get", i)["revision"] == 1, "the revision changed")
    place.is_sound()


def a_disk_that_fills_during_an_import_loses_nothing_and_the_import_can_go_on(place):
    place.mount("4m")
    folder, contents = files(place, 300)
    place.refused("import", folder, **FULL)
    before = place.notes()
    expect(0 < len(before) < 300, f"{len(before)} notes came in")
    expect(set(before.values()) <= contents, "a note is not what its file is")
    place.remount("size=128m")
    place.is_sound()
    report = place.json("import", folder)
    expect(report["unchanged"] == len(before), f"the second import said {report}")
    expect(report["added"] == 300 - len(before), f"the second import said {report}")
    after = place.notes()
    expect(set(after.values()) == contents and len(after) == 300, "notes are missing or doubled")
    expect(before.items() <= after.items(), "a note has another id or content")
    place.is_sound()


def an_export_to_a_full_disk_says_which_file(place):
    place.mount("128m")
    folder, contents = files(place, 100)
    place.ok("import", folder)
    small = place.home / "small"
    place.mount("1m", at=small)
    run = place.pkm("export", small / "out")
    expect(run.returncode == 1, f"export exited {run.returncode}")
    expect("No space left on device" in run.stderr, run.stderr)
    expect(str(small) in run.stderr, run.stderr)
    expect(set(place.notes().values()) == contents, "notes differ")


def a_read_only_folder_can_be_read_and_says_why_it_is_not_written(place):
    place.mount("16m")
    i = place.json("add", "--title", "before", stdin="quartz\n")["id"]
    gone = place.json("add", "--title", "gone", stdin="x\n")["id"]
    place.ok("delete", gone)
    place.remount("ro")
    read_only(place, i, gone)
    place.remount("rw")
    place.ok("edit", i, "--append", "basalt")
    place.is_sound()


def a_read_only_folder_shows_what_a_killed_process_had_written(place):
    place.mount("16m")
    place.json("add", "--title", "first", stdin="x\n")
    # As long as the server has the folder open, what is added stays in the log beside the notes'
    # file; killed, it has no chance to tidy up.
    server = place.start("serve", stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        wait_for(lambda: opened(server.pid, place.data), "the server opens the folder")
        i = place.json("add", "--title", "last", stdin="quartz\n")["id"]
        gone = place.json("add", "--title", "gone", stdin="x\n")["id"]
        place.ok("delete", gone)
    finally:
        server.kill()
        server.wait()
    place.remount("ro")
    read_only(place, i, gone)
    place.remount("rw")
    place.is_sound()


def read_only(place, i, gone):
    expect(place.ok("get", i) == "quartz\n", "the note differs")
    found = place.json("search", "--keyword", "quartz")["matches"]
    expect([hit["id"] for hit in found] == [i], f"a search found {found}")
    found = place.json("search", "quartz")["matches"]
    expect([hit["id"] for hit in found] == [i], f"a search without a model found {found}")
    expect(len(place.json("trash")["notes"]) == 1, "the trash differs")
    expect(len(place.json("history", i)["revisions"]) == 1, "the history differs")
    expect(place.json("status")["store"]["writable"] is False, "status says that it is writable")
    place.is_sound()
    folder = place.home / "in"
    folder.mkdir(exist_ok=True)
    (folder / "a.md").write_text("# a\n")
    place.refused("add", "--title", "t", stdin="x", **READ_ONLY)
    place.refused("edit", i, "--title", "t", **READ_ONLY)
    place.refused("delete", i, **READ_ONLY)
    place.refused("restore", gone, **READ_ONLY)
    place.refused("import", folder, **READ_ONLY)
    expect(place.ok("get", i) == "quartz\n", "the note differs after refusals")
    place.ok("export", place.home / "out")


def a_folder_that_cannot_be_made_is_named(place):
    place.mount("1m")
    place.remount("ro")
    run = place.pkm("add", "--title", "t", stdin="x")
    expect(run.returncode == 1, f"add exited {run.returncode}")
    expect(run.stderr.startswith("error: "), run.stderr)
    expect(str(place.data) in run.stderr, f"the folder is not named: {run.stderr}")


def an_import_killed_at_any_moment_leaves_a_sound_folder(place):
    place.mount("256m")
    folder, contents = files(place, 400)
    for n_notes in (1, 100, 250):
        process = place.start("import", folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_for(
            lambda: process.poll() is not None or count(place) >= n_notes, f"{n_notes} notes are in"
        )
        process.send_signal(signal.SIGKILL)
        process.wait()
        place.is_sound()
        expect(set(place.notes().values()) <= contents, "a note is not what its file is")
    place.ok("import", folder)
    notes = place.notes()
    expect(set(notes.values()) == contents and len(notes) == 400, "notes are missing or doubled")
    place.is_sound()


def a_read_only_folder_is_searched_by_meaning_and_says_what_is_pending(place):
    place.mount("64m")
    i = place.json("add", "--title", "세탁기", stdin="배수 필터에서 머리끈이 나왔다.\n")["id"]
    place.ok("reindex")
    late = place.json("add", "--title", "late", stdin="a hair tie in the washing machine\n")["id"]
    place.remount("ro")
    answer = place.json("search", "--vector", "noise of the washing machine")
    expect([hit["id"] for hit in answer["matches"]] == [i], f"it found {answer}")
    expect(answer["index"]["state"] == "partial", f"it said {answer['index']}")
    answer = place.json("search", "washing machine")
    expect({hit["id"] for hit in answer["matches"]} == {i, late}, f"it found {answer}")
    place.json("related", i)
    place.refused("reindex", **READ_ONLY)
    place.remount("rw")
    place.ok("reindex")
    answer = place.json("search", "--vector", "noise of the washing machine")
    expect(answer["index"]["state"] == "complete", f"it said {answer['index']}")
    place.is_sound()


def a_disk_that_fills_while_embedding_keeps_the_notes_and_reindex_goes_on(place):
    place.mount("64m")
    for i in range(3):
        place.json("add", "--title", f"{i}", stdin=text(i, 2_000))
    kept = place.notes()
    filler = place.disk / "filler"
    with open(filler, "wb", buffering=0) as file:
        try:
            while file.write(bytes(4096)) == 4096:
                pass
        except OSError:
            pass
    run = place.pkm("reindex")
    expect(run.returncode == 1, f"reindex exited {run.returncode}: {run.stderr}")
    expect(run.stderr.startswith("error: "), run.stderr)
    expect("no space is left" in run.stderr, run.stderr)
    filler.unlink()
    place.ok("reindex")
    status = place.json("status")
    expect(status["pending"] == 0 and status["failed"] == 0, f"status says {status}")
    expect(place.notes() == kept, "notes differ")
    place.is_sound()


FULL = {"error": "no space is left for the data folder", "hint": "hint: free some space"}
READ_ONLY = {"error": "cannot write to the data folder", "hint": "hint: make the folder writable"}

FAULTS = [
    a_full_disk_refuses_a_note_and_keeps_the_others,
    a_disk_without_a_byte_left_can_still_be_read,
    a_full_disk_refuses_an_edit_and_keeps_the_note_as_it_was,
    a_disk_that_fills_during_an_import_loses_nothing_and_the_import_can_go_on,
    an_export_to_a_full_disk_says_which_file,
    a_read_only_folder_can_be_read_and_says_why_it_is_not_written,
    a_read_only_folder_shows_what_a_killed_process_had_written,
    a_folder_that_cannot_be_made_is_named,
    an_import_killed_at_any_moment_leaves_a_sound_folder,
]

FAULTS_WITH_MODEL = [
    a_read_only_folder_is_searched_by_meaning_and_says_what_is_pending,
    a_disk_that_fills_while_embedding_keeps_the_notes_and_reindex_goes_on,
]


def text(i, n_bytes):
    """Text of about `n_bytes` that no other `i` has."""
    lines = [f"# marker{i}\n"]
    size = 0
    while size < n_bytes:
        line = f"line {len(lines)} of note {i}, 한 줄 더 적는다.\n"
        lines.append(line)
        size += len(line.encode())
    return "\n".join(lines)


def files(place, n):
    folder = place.home / "files"
    folder.mkdir()
    contents = [text(i, 20_000) for i in range(n)]
    for i, content in enumerate(contents):
        (folder / f"{i:03}.md").write_text(content)
    return folder, set(contents)


def count(place):
    run = place.pkm("list", "--limit", "1", "--json")
    return json.loads(run.stdout)["total"] if run.returncode == 0 else 0


def opened(pid, folder):
    """Whether the process has a file below `folder` open."""
    try:
        links = [os.readlink(link) for link in Path(f"/proc/{pid}/fd").iterdir()]
    except OSError:
        return False
    return any(link.startswith(str(folder)) for link in links)


def wait_for(condition, what, seconds=60):
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            raise Failed(f"waited {seconds} s until {what}")
        time.sleep(0.02)


def expect(holds, otherwise):
    if not holds:
        raise Failed(otherwise)


def sh(*command):
    run = subprocess.run(command, capture_output=True, text=True)
    expect(run.returncode == 0, f"{command[0]}: {run.stderr.strip()}")


if __name__ == "__main__":
    main()
