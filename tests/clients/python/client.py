"""The server as the client of PyPI's `mcp` sees it: client.py BINARY MODELS

Prints a line a check and at the end `N passed, M failed`.
"""

import asyncio
import json
import sys

from harness import (
    FIXTURES,
    Place,
    add_fixtures,
    ask,
    check,
    decomposed,
    error_of,
    long_note,
    refused,
    settle,
    summary,
    titles,
)

TOOLS = {
    "add_note", "delete_note", "empty_trash", "get_note", "index_status", "job_status", "list_notes",
    "reindex_notes", "related_notes", "restore_note", "search_notes", "semantic_search_notes",
    "update_note",
}


async def start_up(place):
    async with place.client() as client:
        with check("the handshake answers with the newest revision that has one"):
            assert client.protocol_version == "2025-11-25", client.protocol_version
            assert client.server_info.title and client.instructions
        with check("a note is found by words while the model may still load"):
            added = await ask(client, "add_note", title="First thing", content="written before the model is there")
            found = await ask(client, "search_notes", query="before the model")
            assert [match["id"] for match in found["matches"]] == [added["id"]], found
            state = (await ask(client, "index_status"))["model"]["state"]
            assert state in ("loading", "ready"), state
        await ask(client, "delete_note", id=added["id"])


async def listing(client):
    tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    with check("all tools are listed, each with a title, a description and closed-world annotations"):
        assert set(tools) == TOOLS, set(tools) ^ TOOLS
        for tool in tools.values():
            assert tool.title and tool.description and tool.output_schema, tool.name
            assert tool.annotations.open_world_hint is False, tool.name
            assert tool.annotations.read_only_hint == (tool.name in READING), tool.name
    with check("schemas are plain"):
        text = json.dumps([[tool.input_schema, tool.output_schema] for tool in tools.values()])
        for word in ("$schema", "$ref", "$defs", '"null"', '"format"', "oneOf"):
            assert word not in text, word
        for tool in tools.values():
            assert tool.input_schema["additionalProperties"] is False, tool.name


READING = {
    "get_note", "index_status", "list_notes", "related_notes", "search_notes", "semantic_search_notes",
}


async def words(client):
    for row in FIXTURES["particles"]:
        with check(f"`{row['query']}` finds `{row['title']}`, composed and decomposed (C1)"):
            found = await ask(client, "search_notes", query=row["query"])
            assert row["title"] in titles(found), titles(found)
            same = await ask(client, "search_notes", query=decomposed(row["query"]))
            assert titles(same) == titles(found), titles(same)
    for query in FIXTURES["identifiers"]:
        with check(f"the name `{query}` is found, bare and in quotes (C3)"):
            for spelling in (query, f'"{query}"', f"where is {query} used"):
                tool = "search_notes" if " " not in spelling else "semantic_search_notes"
                found = titles(await ask(client, tool, query=spelling))
                assert "Odd names" in found or "Postmortem: duplicate notifications" in found, (spelling, found)
    with check("a filter by tag and by folder holds"):
        found = titles(await ask(client, "search_notes", query="work database queue", tags=["WORK"], folder="work"))
        assert found and set(found) <= {
            "Postmortem: duplicate notifications", "Backing up the database", "알림 개편 회의",
        }, found


async def meaning(client):
    for row in FIXTURES["questions"]:
        with check(f"by meaning, {row['pair']}: {row['query']}"):
            for mode in ("hybrid", "vector"):
                found = await ask(client, "semantic_search_notes", query=row["query"], mode=mode, limit=3)
                assert row["title"] in titles(found), (mode, titles(found))
                assert found["index"]["state"] == "complete", found["index"]
    with check("related notes leave the note itself out"):
        start = (await ask(client, "search_notes", query="알림"))["matches"][0]["id"]
        found = await ask(client, "related_notes", id=start, limit=3)
        assert len(found["matches"]) == 3 and start not in [match["id"] for match in found["matches"]], found


async def long_notes(client):
    content = long_note()
    lines = content.split("\n")
    added = await ask(client, "add_note", title="Long diary", content=content)
    await settle(client)
    for marker in FIXTURES["markers"]:
        line = lines.index(marker["sentence"]) + 1
        with check(f"the marker at {marker['at']} characters is found by words, with its line (C4)"):
            found = await ask(client, "search_notes", query=marker["words"], limit=3)
            match = next(match for match in found["matches"] if match["id"] == added["id"])
            assert marker["words"].split()[0] in match["snippet"], match["snippet"]
            assert match["lines"][0] <= line <= match["lines"][1], (line, match["lines"])
            assert match["snippet"].split("…")[0].split("\n")[0].strip() in content or match["snippet"].startswith("…")
        with check(f"the marker at {marker['at']} characters is found by meaning (C4)"):
            found = await ask(client, "semantic_search_notes", query=marker["meaning"], mode="vector", limit=3)
            match = next(match for match in found["matches"] if match["id"] == added["id"])
            assert marker["sentence"] in match["snippet"], match["snippet"]
            assert match["lines"][0] <= line <= match["lines"][1], (line, match["lines"])
    with check("a long note is read in pages that make the note"):
        whole, at = "", 1
        while True:
            page = await ask(client, "get_note", id=added["id"], from_line=at, max_lines=100)
            whole += page["content"]
            if not page["truncated"]:
                break
            at = page["lines"][1] + 1
        assert whole == content and page["n_lines"] == len(lines), (len(whole), len(content))
    await ask(client, "delete_note", id=added["id"])


async def edits(client):
    added = await ask(client, "add_note", title="Garden plan", content="Tomatoes along the wall.\nBasil in pots.\n")
    note = added["id"]

    async def by_words(query):
        found = await ask(client, "search_notes", query=query)
        return note in [match["id"] for match in found["matches"]]

    with check("an edit with the revision that was read is written; new words are found, old ones not (C5)"):
        changed = await ask(client, "update_note", id=note, expected_revision=added["revision"],
                            replace={"find": "Tomatoes", "with": "Zucchini"})
        assert changed["revision"] == added["revision"] + 1
        assert await by_words("Zucchini") and not await by_words("Tomatoes")
    with check("an edit with a stale revision is refused in words and writes nothing"):
        content, text = await refused(client, "update_note", id=note, expected_revision=added["revision"], content="x")
        assert content["code"] == "conflict" and content["found_revision"] == changed["revision"], content
        assert "get_note" in text and str(changed["revision"]) in text, text
        assert "Zucchini" in (await ask(client, "get_note", id=note))["content"]
    with check("text to replace must be there exactly once"):
        content, _ = await refused(client, "update_note", id=note, replace={"find": "no such words", "with": ""})
        assert content["field"] == "replace", content
        content, _ = await refused(client, "update_note", id=note, append="a", content="b")
        assert content["code"] == "invalid_argument", content
    with check("text is appended, title, tags and folder change alone"):
        await ask(client, "update_note", id=note, append="Mint by the door.")
        await ask(client, "update_note", id=note, title="Garden", tags=["garden"], folder="home/garden")
        read = await ask(client, "get_note", id=note)
        assert read["content"] == "Zucchini along the wall.\nBasil in pots.\nMint by the door.", read
        assert (read["title"], read["tags"], read["folder"]) == ("Garden", ["garden"], "home/garden"), read
    await settle(client)
    with check("a deleted note is gone from both searches, the list and reading (C5)"):
        deleted = await ask(client, "delete_note", id=note)
        assert deleted["deleted"] is True and deleted["restorable_until"] > read["updated_at"], deleted
        assert not await by_words("Zucchini")
        for mode in ("hybrid", "vector"):
            found = await ask(client, "semantic_search_notes", query="vegetables in the garden", mode=mode, limit=50)
            assert note not in [match["id"] for match in found["matches"]], found
        listed = await ask(client, "list_notes", limit=50)
        assert note not in [entry["id"] for entry in listed["notes"]], listed
        content, _ = await refused(client, "get_note", id=note)
        assert content["code"] == "in_trash", content
    with check("a restored note is as it was and is found again"):
        await ask(client, "restore_note", id=note)
        assert (await ask(client, "get_note", id=note))["content"] == read["content"]
        assert await by_words("Zucchini")
        found = await ask(client, "semantic_search_notes", query="vegetables in the garden", limit=3)
        assert "Garden" in titles(found), titles(found)
    with check("an earlier revision comes back"):
        await ask(client, "restore_note", id=note, revision=1)
        back = await ask(client, "get_note", id=note)
        assert back["content"].startswith("Tomatoes") and back["title"] == "Garden plan", back
    await ask(client, "delete_note", id=note)


async def progress(client):
    seen = []

    async def on_progress(value, total, message):
        seen.append((value, total, message))

    added = await ask(client, "add_note", title=f"For {client.protocol_version}", content=long_note())
    with check(f"reindex_notes runs to its end and the client sees progress ({client.protocol_version})"):
        job = await ask(client, "reindex_notes", progress=on_progress, scope="all", wait_seconds=55)
        while job["state"] in ("queued", "running"):
            job = await ask(client, "job_status", job_id=job["job_id"], wait_seconds=55)
        assert job["state"] == "done" and job["kind"] == "reindex", job
        values = [value for value, _, _ in seen]
        assert len(values) >= 2 and all(a < b for a, b in zip(values, values[1:])), seen
        assert all(total and message for _, total, message in seen), seen
    await ask(client, "delete_note", id=added["id"])
    with check("a job that is over can still be looked at"):
        again = await ask(client, "job_status", job_id=job["job_id"])
        assert again["state"] == "done", again
        content, _ = await refused(client, "job_status", job_id=999_999)
        assert content["code"] == "no_such_job", content


async def wrong(client):
    for what, tool, arguments, field in [
        ("a blank query", "search_notes", {"query": "  "}, "query"),
        ("limit 0", "semantic_search_notes", {"query": "a", "limit": 0}, "limit"),
        ("limit 51", "search_notes", {"query": "a", "limit": 51}, "limit"),
        ("a query of the wrong type", "search_notes", {"query": 5}, "query"),
        ("no query", "search_notes", {}, "query"),
        ("an unknown argument", "search_notes", {"query": "a", "lmit": 3}, "lmit"),
        ("a mode that does not exist", "semantic_search_notes", {"query": "a", "mode": "x"}, "mode"),
        ("a blank title", "add_note", {"title": " ", "content": "x"}, "title"),
        ("a folder that climbs out", "add_note", {"title": "t", "content": "x", "folder": "../up"}, "folder"),
        ("a time that is none", "search_notes", {"query": "a", "updated_after": "yesterday"}, "updated_after"),
        ("a wait of an hour", "reindex_notes", {"wait_seconds": 3600}, "wait_seconds"),
    ]:
        with check(f"{what} is refused with field and reason ({client.protocol_version})"):
            content, text = await refused(client, tool, **arguments)
            assert (content["code"], content["field"]) == ("invalid_argument", field), content
            assert content["reason"] and field in text, text
    with check(f"an unknown id is refused in words ({client.protocol_version})"):
        for tool in ("get_note", "update_note", "delete_note", "restore_note", "related_notes"):
            more = {"title": "x"} if tool == "update_note" else {}
            content, text = await refused(client, tool, id=999_999, **more)
            assert content["code"] == "not_found" and "999999" in text, (tool, content)
    with check(f"an unknown tool is -32602 ({client.protocol_version})"):
        error = await error_of(client.call_tool("no_such_tool", {}))
        assert error.code == -32602 and error.data["field"] == "name", error


async def resources(client, not_found):
    with check(f"notes are resources, newest first, and can be read ({client.protocol_version})"):
        listed = (await client.list_resources()).resources
        assert str(listed[0].uri) == "pkm://status", listed[0]
        status = json.loads((await client.read_resource("pkm://status")).contents[0].text)
        assert status["notes"] == len(listed) - 1, status
        read = (await client.read_resource(listed[1].uri)).contents[0]
        assert read.mime_type == "text/markdown" and read.text, read
        templates = (await client.list_resource_templates()).resource_templates
        assert "note://{id}" in [template.uri_template for template in templates], templates
    with check(f"a resource that is not there is {not_found} ({client.protocol_version})"):
        error = await error_of(client.read_resource("note://999999"))
        assert error.code == not_found and error.data["uri"] == "note://999999", error
    with check(f"prompts come with the notes they are about ({client.protocol_version})"):
        prompts = {prompt.name: prompt for prompt in (await client.list_prompts()).prompts}
        assert set(prompts) == {"summarize_topic", "find_connections", "weekly_review"}, prompts
        start = (await ask(client, "search_notes", query="알림"))["matches"][0]["id"]
        for name, arguments in [
            ("summarize_topic", {"topic": "알림"}),
            ("find_connections", {"note_id": str(start)}),
            ("weekly_review", {"since": "2026-01-01"}),
        ]:
            messages = (await client.get_prompt(name, arguments)).messages
            embedded = [message.content.resource.uri for message in messages if message.content.type == "resource"]
            assert messages[0].content.type == "text" and f"note://{start}" in map(str, embedded), (name, embedded)
        error = await error_of(client.get_prompt("summarize_topic", {}))
        assert error.code == -32602 and error.data["field"] == "topic", error
        error = await error_of(client.get_prompt("no_such_prompt", {}))
        assert error.code == -32602, error


async def whole(binary, models):
    place = Place(binary, models)
    await start_up(place)
    async with place.client() as client:
        await listing(client)
        with check("notes are added"):
            ids = await add_fixtures(client)
            assert len(set(ids.values())) == len(FIXTURES["notes"]), ids
        await settle(client)
        await words(client)
        await meaning(client)
        await long_notes(client)
        await edits(client)
        await progress(client)
        await wrong(client)
        await resources(client, -32002)
    async with place.client(mode="auto") as client:
        with check("the same notes are there for a client of the revision without a handshake"):
            assert client.protocol_version == "2026-07-28", client.protocol_version
            found = await ask(client, "search_notes", query="알림")
            assert "알림 개편 회의" in titles(found), found
            assert client.server_info.name == "pkm", client.server_info
        await wrong(client)
        await progress(client)
        await resources(client, -32602)


def main():
    from places import two_servers, without_model, raw_bytes, imported

    binary, models = sys.argv[1:]
    asyncio.run(whole(binary, models))
    asyncio.run(without_model(binary, models))
    asyncio.run(two_servers(binary, models))
    asyncio.run(imported(binary, models))
    raw_bytes(binary, models)
    sys.exit(summary())


if __name__ == "__main__":
    main()
