"""Folders in a state of their own: no model, two servers at once, an import, a client that talks nonsense."""

import asyncio
import json
import signal
import subprocess

from harness import FIXTURES, Place, add_fixtures, ask, check, refused, titles

# What a client takes at once; about 25,000 tokens of text.
ANSWER_MAX_BYTES = 60_000


async def without_model(binary, models):
    place = Place(binary, models)
    async with place.client(with_model=False) as client:
        await add_fixtures(client)
        with check("without a model, notes are written and found by words"):
            found = await ask(client, "search_notes", query="알림")
            assert "알림 개편 회의" in titles(found), found
            status = await ask(client, "index_status")
            assert status["model"]["state"] == "absent" and status["pending"] > 0, status
        with check("without a model, search by meaning alone is refused in words"):
            content, text = await refused(client, "semantic_search_notes", query="overheated soup", mode="vector")
            assert content["code"] == "no_model" and "search_notes" in text, (content, text)
        with check("without a model, the fused search goes by words and says so"):
            result = await client.call_tool("semantic_search_notes", {"query": "알림"})
            index = result.structured_content["index"]
            assert index["state"] == "keyword_only" and index["reason"], index
            assert "words alone" in result.content[0].text, result.content[0].text
        with check("an empty answer of an incomplete search says so in its text"):
            result = await client.call_tool("semantic_search_notes", {"query": "qwertyuiop"})
            assert not result.structured_content["matches"]
            assert "words alone" in result.content[0].text, result.content[0].text
        with check("fifty long notes fit one answer, and what was cut is marked (C13)"):
            for number in range(50):
                body = "\n".join(f"분기보고 {number}-{line}: 매출과 지원, quarterly figures in detail." for line in range(150))
                await ask(client, "add_note", title=f"분기보고 {number} " + "긴 제목 " * 20, content=body)
            result = await client.call_tool("search_notes", {"query": "분기보고", "limit": 50})
            size = len(result.model_dump_json().encode())
            assert len(result.structured_content["matches"]) == 50
            assert size < ANSWER_MAX_BYTES, size
            assert "…" in result.content[0].text and "get_note" in result.content[0].text
        with check("pages of a search follow each other without gap or repetition"):
            seen, cursor = [], None
            while True:
                more = {"cursor": cursor} if cursor else {}
                page = await ask(client, "search_notes", query="분기보고", limit=20, **more)
                seen += [match["id"] for match in page["matches"]]
                cursor = page.get("next_cursor")
                if not cursor:
                    break
            assert len(seen) == 50 == len(set(seen)), seen
        with check("a list goes page by page through all notes"):
            seen, cursor = [], None
            while True:
                more = {"cursor": cursor} if cursor else {}
                page = await ask(client, "list_notes", limit=25, **more)
                seen += [note["id"] for note in page["notes"]]
                cursor = page.get("next_cursor")
                if not cursor:
                    break
            assert len(seen) == page["total"] == len(set(seen)) == 50 + len(FIXTURES["notes"]), page["total"]
        with check("a huge note is cut and says so"):
            added = await ask(client, "add_note", title="Huge", content="한 줄의 글이다.\n" * 20_000)
            result = await client.call_tool("get_note", {"id": added["id"]})
            note = result.structured_content
            assert note["truncated"] and note["n_lines"] == 20_000, note["n_lines"]
            assert len(note["content"].encode()) <= ANSWER_MAX_BYTES
            assert f"from_line {note['lines'][1] + 1}" in result.content[0].text


async def two_servers(binary, models):
    place = Place(binary, models)
    async with place.client() as one, place.client(mode="auto") as two:

        async def add(client, name):
            answers = []
            for number in range(20):
                answers.append(await ask(client, "add_note", title=f"{name} {number}", content=f"shared word {name}{number}"))
            return answers

        with check("two servers on one folder: twenty notes each at once, each acknowledged once (C8)"):
            answers = await asyncio.gather(add(one, "alpha"), add(two, "beta"))
            ids = [answer["id"] for half in answers for answer in half]
            assert len(set(ids)) == 40, ids
        with check("each server finds the other's notes"):
            for client, name in ((one, "beta"), (two, "alpha")):
                for number in (0, 19):
                    found = titles(await ask(client, "search_notes", query=f"{name}{number}"))
                    assert f"{name} {number}" in found, found
                assert (await ask(client, "list_notes", limit=1))["total"] == 40


async def imported(binary, models):
    place = Place(binary, models)
    folder = place.root / "vault"
    folder.mkdir()
    body = (
        "---\r\ntitle: 정원 일지\r\ntags:\r\n  - 정원\r\n  - garden\r\n---\r\n"
        "# 봄\r\n\r\n## 파종\r\n\r\n상추와 바질을 심었다.\r\n\r\n---\r\n\r\n"
        "```sh\r\n# water the plants\r\npump --minutes 5\r\n```\r\n\r\n물은 아침에 준다.\r\n"
    )
    (folder / "garden.md").write_bytes(b"\xef\xbb\xbf" + body.encode())
    with check("a file with byte order mark, CRLF and front matter is imported (C16)"):
        run = place.run("import", str(folder))
        assert run.returncode == 0, run.stderr.decode()
    async with place.client() as client:
        with check("its tags and title are read, its body is found, its bytes are kept (C16)"):
            found = (await ask(client, "search_notes", query="바질", tags=["정원"]))["matches"]
            assert len(found) == 1 and set(found[0]["tags"]) == {"정원", "garden"}, found
            note = await ask(client, "get_note", id=found[0]["id"])
            assert note["title"] == "정원 일지", note["title"]
            assert note["content"].removeprefix("\ufeff") == body, note["content"]
        with check("headings are those of the text, not lines of a fenced block (C16)"):
            assert found[0]["heading"][0] == "봄", found[0]["heading"]
            fenced = (await ask(client, "search_notes", query="water the plants"))["matches"][0]
            assert fenced["heading"][0] == "봄" and "water the plants" not in fenced["heading"], fenced["heading"]
            assert "pump --minutes 5" in fenced["snippet"], fenced["snippet"]


def raw_bytes(binary, models):
    place = Place(binary, models)
    hello = {
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}},
    }

    def talk(*messages):
        lines = [message if isinstance(message, bytes) else json.dumps(message).encode() for message in messages]
        run = place.run("serve", stdin=b"".join(line + b"\n" for line in lines))
        assert run.returncode == 0, run.stderr.decode()
        return [json.loads(line) for line in run.stdout.decode().splitlines()]

    def call(number, tool, **arguments):
        return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}

    with check("an input that ends at once is a normal end, with nothing on stdout (C14)"):
        assert talk() == []
    with check("up to 2025-06-18, a wrong argument is -32602 with field and reason"):
        answers = {answer["id"]: answer for answer in talk(hello, call(2, "search_notes", query="a", limit=0), call(3, "search_notes", query=" "))}
        assert answers[1]["result"]["protocolVersion"] == "2025-06-18", answers[1]
        for id, field in ((2, "limit"), (3, "query")):
            error = answers[id]["error"]
            assert error["code"] == -32602 and error["data"]["field"] == field and error["data"]["reason"], error
    with check("up to 2025-06-18, an unknown id is a result in words all the same"):
        answer = next(answer for answer in talk(hello, call(2, "get_note", id=12345)) if answer["id"] == 2)
        assert answer["result"]["isError"] and answer["result"]["structuredContent"]["code"] == "not_found", answer
    with check("a server that is asked to stop ends by itself"):
        with subprocess.Popen(
            [place.binary, *place.arguments("serve")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=place.env
        ) as server:
            server.stdin.write(json.dumps(hello).encode() + b"\n")
            server.stdin.flush()
            assert json.loads(server.stdout.readline())["id"] == 1
            server.send_signal(signal.SIGTERM)
            assert server.wait(timeout=60) == 0
    with check("nonsense is answered, and the server lives on"):
        answers = talk(
            {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 9}},
            b"{not json",
            b'"\xff"',
            b'{"id": 7, "method": "tools/list"}',
            hello,
            {"jsonrpc": "2.0", "method": "notifications/initialized"},
            {"jsonrpc": "2.0", "id": 8, "method": "tools/call", "params": {"name": 5}},
            {"jsonrpc": "2.0", "id": 12, "method": "tools/call", "params": {"name": "get_note", "arguments": [1]}},
            {"jsonrpc": "2.0", "id": 9, "method": "no/such/method"},
            {"jsonrpc": "2.0", "id": 10, "method": "tools/list", "params": []},
            call(11, "search_notes", query="anything"),
        )
        codes = {(answer["id"], answer.get("error", {}).get("code")) for answer in answers}
        assert codes == {
            (None, -32700), (7, -32600), (1, None), (8, -32602), (12, -32602), (9, -32601), (10, -32602), (11, None),
        }, codes
        assert sum(1 for answer in answers if answer.get("error", {}).get("code") == -32700) == 2, answers
