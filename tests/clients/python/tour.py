"""The same tour of the server with every client library of PyPI, over stdio and HTTP, in both eras: tour.py BINARY MODELS

Prints a line a check and at the end `N passed, M failed`.
"""

import asyncio
import sys

import mcp_types

from harness import error_of
from place import FIXTURES, Place, check, long_note, summary
from visitors import VISITS

KOREAN = next(note for note in FIXTURES["notes"] if note["title"] == "보일러 동파 대처")
ENGLISH = next(note for note in FIXTURES["notes"] if note["title"] == "Sourdough starter")


async def ask(visitor, tool, progress=None, **arguments):
    """The structured content of a call that must succeed."""
    result = await visitor.call(tool, arguments, progress)
    assert not result.is_error, result.content[0].text
    return result.structured_content


async def done(visitor, job):
    """Waits for the end of a job."""
    while job["state"] in ("queued", "running"):
        job = await ask(visitor, "job_status", job_id=job["job_id"], wait_seconds=50)
    assert job["state"] == "done", job


async def tour(visitor, revision, way):
    def step(what):
        return check(f"{way}: {what}")

    with step(f"speaks {revision}"):
        assert visitor.client.protocol_version == revision, visitor.client.protocol_version
    with step("tools are listed"):
        names = {tool.name for tool in await visitor.tools()}
        assert {"add_note", "search_notes", "semantic_search_notes", "reindex_notes", "empty_trash"} <= names, names
    with step("notes are added"):
        korean = (await ask(visitor, "add_note", **KOREAN))["id"]
        english = (await ask(visitor, "add_note", **ENGLISH))["id"]
        long = (await ask(visitor, "add_note", title="Long diary", content=long_note(8000)))["id"]
    with step("a note is found by its words"):
        for word, note in (("계량기함", korean), ("sourdough", english)):
            found = await ask(visitor, "search_notes", query=word)
            assert [match["id"] for match in found["matches"]][:1] == [note], found["matches"]
    with step("reindex_notes tells its progress"):
        seen = []

        async def on_progress(value, total, message):
            seen.append((value, total, message))

        await done(visitor, await ask(visitor, "reindex_notes", on_progress, scope="all", wait_seconds=50))
        values = [value for value, _, _ in seen]
        assert len(values) >= 2 and all(a < b for a, b in zip(values, values[1:])), seen
        assert all(total and message for _, total, message in seen), seen
    with step("a note is found by its meaning"):
        for question, note in (("얼어붙은 수도를 어떻게 하나", korean), ("keeping bread yeast alive", english)):
            found = await ask(visitor, "semantic_search_notes", query=question, mode="vector", limit=1)
            assert [match["id"] for match in found["matches"]] == [note], found["matches"]
    with step("an error is read"):
        result = await visitor.call("search_notes", {"query": "  "})
        assert result.is_error and result.structured_content["field"] == "query", result
        assert "query" in result.content[0].text, result.content[0].text
        error = await error_of(visitor.call("no_such_tool", {}))
        assert error.code == -32602 and error.data["field"] == "name", error
    with step("a call is cancelled in its middle, and the server goes on"):
        await cancelled(visitor)
    with step("resources are listed, read and completed"):
        listed = {str(resource.uri) for resource in await visitor.resources()}
        assert {"pkm://status", f"note://{korean}", f"note://{english}"} <= listed, listed
        assert "note://{id}" in [template.uri_template for template in await visitor.templates()]
        contents = await visitor.read(f"note://{korean}")
        assert contents[0].mime_type == "text/markdown" and "계량기함" in contents[0].text, contents
        ref = mcp_types.ResourceTemplateReference(type="ref/resource", uri="note://{id}")
        completion = await visitor.complete(ref, {"name": "id", "value": "Sourdough"})
        assert completion.values == [str(english)], completion
        error = await error_of(visitor.read("note://999999"))
        assert error.code == (-32602 if visitor.is_modern else -32002), error
    with step("prompts are listed and filled in"):
        names = {prompt.name for prompt in await visitor.prompts()}
        assert names == {"summarize_topic", "find_connections", "weekly_review"}, names
        messages = await visitor.prompt("summarize_topic", {"topic": "sourdough"})
        embedded = [str(message.content.resource.uri) for message in messages if message.content.type == "resource"]
        assert f"note://{english}" in embedded, embedded
    with step("a change of a watched note is told"):
        async with visitor.watching(f"note://{english}"):
            await ask(visitor, "update_note", id=english, append="And a pinch of salt.")
            assert await asyncio.wait_for(visitor.updated.get(), 30) == f"note://{english}"
    with step("the user is asked before the trash is emptied"):
        await ask(visitor, "delete_note", id=long)
        emptied = await ask(visitor, "empty_trash")
        assert len(visitor.asked) == 1, visitor.asked
        assert emptied["outcome"] == "deleted" and emptied["trashed"] == 0, emptied
    for note in (korean, english):
        await ask(visitor, "delete_note", id=note)


async def cancelled(visitor):
    begun = asyncio.Event()

    async def on_progress(_value, _total, _message):
        begun.set()

    call = asyncio.create_task(ask(visitor, "reindex_notes", on_progress, scope="all", wait_seconds=50))
    await asyncio.wait_for(begun.wait(), 30)
    call.cancel()
    try:
        await call
        raise AssertionError("the call was answered")
    except asyncio.CancelledError:
        pass
    # Not waiting for a job is not stopping it.
    jobs = (await ask(visitor, "index_status"))["jobs"]
    await done(visitor, await ask(visitor, "job_status", job_id=jobs[0]["job_id"], wait_seconds=50))


async def visit(place, address, only=None):
    for visitor, mode, revision in VISITS:
        way = f"{visitor.name} {mode} over {'HTTP' if address else 'stdio'}"
        if only and only not in way:
            continue
        with check(f"{way}: comes and goes"):
            async with visitor.visit(place, address, mode) as connected:
                await tour(connected, revision, way)


def main():
    binary, models, *only = sys.argv[1:]
    place = Place(binary, models)
    asyncio.run(visit(place, None, *only))
    with check("the server over HTTP comes and goes"), place.over_http() as address:
        asyncio.run(visit(place, address, *only))
    sys.exit(summary())


if __name__ == "__main__":
    main()
