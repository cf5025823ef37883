"""A place with a client of PyPI's `mcp`, and what one asks such a client."""

import unicodedata

from mcp import Client, MCPError, StdioServerParameters

import place
from place import FIXTURES, check, long_note, summary

__all__ = [
    "FIXTURES", "Place", "add_fixtures", "ask", "check", "decomposed", "error_of", "long_note",
    "refused", "settle", "summary", "titles",
]


class Place(place.Place):
    def client(self, mode="legacy", with_model=True):
        models = None if with_model else str(self.root / "no-models")
        server = StdioServerParameters(command=self.binary, args=self.arguments("serve", models=models), env=self.env)
        return Client(server, mode=mode)


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
