"""What works, by revision, transport and feature: table.py BINARY MODELS

Speaks to the server by hand. Every cell of the table comes from checks made in this run; a cell whose
check fails says so, and the exit code is 1.
"""

import sys
import traceback

from place import FIXTURES, Place, long_note
from wire import NEWEST, Http, Stdio, consent

REVISIONS = ["2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"]
TASKS = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
FORMS = {"elicitation": {"form": {}}}

WORKS = "works"
NOT_DEFINED = "not defined there"
NOT_OFFERED = "not offered (1)"
FOOTNOTE = """\
(1) The tasks of 2025-11-25 were an experiment in another shape, which the next revision dropped. Long
    work is a job there, as everywhere: reindex_notes and job_status."""


def is_unknown(answer):
    return answer.get("error", {}).get("code") == -32601


class Visit:
    """One column of the table: a client of one revision over one transport, and the notes it works on."""

    def __init__(self, wire):
        self.wire = wire
        notes = {note["title"]: note for note in FIXTURES["notes"]}
        self.korean = self.add(**notes["보일러 동파 대처"])
        self.english = self.add(**notes["Sourdough starter"])
        self.long = self.add(title="Long diary", content=long_note(8000))

    def add(self, **note):
        return self.wire.call("add_note", note)["id"]

    def uri(self, note):
        return f"note://{note}"

    def finish(self, job_id):
        """Waits for the end of a job."""
        while True:
            job = self.wire.call("job_status", {"job_id": job_id, "wait_seconds": 50})
            if job["state"] not in ("queued", "running"):
                assert job["state"] == "done", job
                return

    def tools(self):
        listed = self.wire.request("tools/list")["result"]["tools"]
        assert {"add_note", "get_note", "search_notes"} <= {tool["name"] for tool in listed}, listed
        found = self.wire.call("search_notes", {"query": "계량기함"})
        assert found["matches"][0]["id"] == self.korean, found
        return WORKS

    def resources(self):
        listed = self.wire.request("resources/list")["result"]["resources"]
        assert self.uri(self.english) in {resource["uri"] for resource in listed}, listed
        templates = self.wire.request("resources/templates/list")["result"]["resourceTemplates"]
        assert "note://{id}" in [template["uriTemplate"] for template in templates], templates
        read = self.wire.request("resources/read", {"uri": self.uri(self.english)})["result"]
        assert "flour" in read["contents"][0]["text"], read
        missing = self.wire.request("resources/read", {"uri": "note://999999"})["error"]
        assert missing["code"] == (-32602 if self.wire.is_modern else -32002), missing
        return WORKS

    def subscriptions(self):
        uri = self.uri(self.english)
        if self.wire.is_modern:
            wanted = {"notifications": {"resourceSubscriptions": [uri], "resourcesListChanged": True}}
            id = self.wire.start("subscriptions/listen", wanted)
            agreed = self.wire.wait(
                lambda message: message.get("method") == "notifications/subscriptions/acknowledged"
                or message.get("id") == id
            )
            assert "error" not in agreed, agreed
            assert agreed["params"]["notifications"] == wanted["notifications"], agreed
        else:
            assert self.wire.server["capabilities"]["resources"] == {"subscribe": True, "listChanged": True}
            assert self.wire.request("resources/subscribe", {"uri": uri})["result"] == {}
        self.wire.call("update_note", {"id": self.english, "append": "And a pinch of salt."})
        updated = self.wire.wait(lambda message: message.get("method") == "notifications/resources/updated")
        assert updated["params"]["uri"] == uri, updated
        since = len(self.wire.log)
        self.wire.call("delete_note", {"id": self.add(title="One more", content="It makes the list longer.")})
        listed = self.wire.wait(
            lambda message: message.get("method") == "notifications/resources/list_changed", since
        )
        if self.wire.is_modern:
            for told in (updated, listed):
                assert told["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"] == id, told
            self.wire.cancel(id)
        else:
            assert self.wire.request("resources/unsubscribe", {"uri": uri})["result"] == {}
        return WORKS

    def prompts(self):
        listed = self.wire.request("prompts/list")["result"]["prompts"]
        assert {prompt["name"] for prompt in listed} == {"summarize_topic", "find_connections", "weekly_review"}
        filled = self.wire.request("prompts/get", {"name": "summarize_topic", "arguments": {"topic": "sourdough"}})
        resources = [message["content"].get("resource", {}) for message in filled["result"]["messages"]]
        assert self.uri(self.english) in [resource.get("uri") for resource in resources], filled
        return WORKS

    def completion(self):
        asked = {
            "ref": {"type": "ref/resource", "uri": "note://{id}"},
            "argument": {"name": "id", "value": "Sourdough"},
        }
        answer = self.wire.request("completion/complete", asked)["result"]
        assert answer["completion"]["values"] == [str(self.english)], answer
        return WORKS

    def progress(self):
        id = self.wire.start("tools/call", REINDEX, token="how far")
        answer = self.wire.answer(id)
        self.finish(answer["result"]["structuredContent"]["job_id"])
        told = [
            message for message in self.wire.notifications("notifications/progress")
            if message["params"]["progressToken"] == "how far"
        ]
        values = [message["params"]["progress"] for message in told]
        assert len(values) >= 2 and all(a < b for a, b in zip(values, values[1:])), told
        assert all(message["params"]["total"] and message["params"]["message"] for message in told), told
        assert self.wire.log.index(told[-1]) < self.wire.log.index(answer), "progress after the answer"
        return WORKS

    def cancel(self):
        id = self.wire.start("tools/call", REINDEX, token="cut short")
        self.wire.wait(
            lambda message: message.get("method") == "notifications/progress"
            and message["params"]["progressToken"] == "cut short"
        )
        self.wire.cancel(id)
        # When the job is over, a call that still waited for it would have its answer before this one.
        self.finish(self.wire.call("index_status")["jobs"][0]["job_id"])
        self.wire.call("index_status")
        assert not [message for message in self.wire.log if message.get("id") == id], "the cancelled call is answered"
        return WORKS

    def tasks(self):
        if not self.wire.is_modern:
            assert "tasks" not in self.wire.server["capabilities"], self.wire.server
            assert is_unknown(self.wire.request("tasks/get", {"taskId": "1"}))
            return NOT_OFFERED if self.wire.revision == "2025-11-25" else NOT_DEFINED
        answer = self.wire.request("tools/call", REINDEX, capabilities=TASKS)["result"]
        assert answer["resultType"] == "task", answer
        while True:
            task = self.wire.request("tasks/get", {"taskId": answer["taskId"]}, capabilities=TASKS)["result"]
            if task["status"] != "working":
                break
            self.finish(self.wire.call("index_status")["jobs"][0]["job_id"])
        assert task["status"] == "completed", task
        assert task["result"]["structuredContent"]["state"] == "done", task
        undeclared = self.wire.request("tasks/get", {"taskId": answer["taskId"]})
        assert undeclared["error"]["code"] == -32021, undeclared
        return WORKS

    def elicitation(self):
        self.wire.call("delete_note", {"id": self.long})
        asked = {"name": "empty_trash", "arguments": {}}
        if self.wire.is_modern:
            answer = self.wire.request("tools/call", asked, capabilities=FORMS)["result"]
            assert answer["resultType"] == "input_required", answer
            answers = {key: consent(question) for key, question in answer["inputRequests"].items()}
            asked |= {"inputResponses": answers, "requestState": answer["requestState"]}
        answer = self.wire.request("tools/call", asked, capabilities=FORMS)["result"]
        n_asked = len(self.wire.notifications("elicitation/create"))
        if self.wire.revision == "2025-03-26":
            # There the model has to ask, and say how many notes were agreed to.
            assert n_asked == 0 and answer["isError"], answer
            answer = self.wire.call("empty_trash", {"confirm": answer["structuredContent"]["confirm"]})
            assert answer["outcome"] == "deleted" and answer["trashed"] == 0, answer
            return NOT_DEFINED
        assert n_asked == (0 if self.wire.is_modern else 1), self.wire.log[-3:]
        assert not answer["isError"], answer
        assert answer["structuredContent"]["outcome"] == "deleted", answer
        assert answer["structuredContent"]["trashed"] == 0, answer
        return WORKS

    def batch(self):
        said = self.wire.batch([
            {"jsonrpc": "2.0", "id": "first", "method": "tools/list"},
            {"jsonrpc": "2.0", "id": "second", "method": "prompts/list"},
        ])
        if self.wire.revision == "2025-03-26":
            assert {message["id"] for message in said} == {"first", "second"}, said
            assert all("result" in message for message in said), said
            return WORKS
        assert [message["error"]["code"] for message in said] == [-32600], said
        return NOT_DEFINED

    def leave(self):
        for note in (self.korean, self.english):
            self.wire.call("delete_note", {"id": note})


REINDEX = {"name": "reindex_notes", "arguments": {"scope": "all", "wait_seconds": 50}}
FEATURES = [
    Visit.tools,
    Visit.resources,
    Visit.subscriptions,
    Visit.prompts,
    Visit.completion,
    Visit.progress,
    Visit.cancel,
    Visit.tasks,
    Visit.elicitation,
    Visit.batch,
]


def column(wire):
    """What each feature comes to; a failed check is told at once and leaves the others their turn."""
    cells = {}
    with wire:
        visit = Visit(wire)
        for feature in FEATURES:
            try:
                cells[feature] = feature(visit)
            except Exception:
                print(f"FAILED {type(wire).__name__} {wire.revision}: {feature.__name__}", flush=True)
                traceback.print_exc()
                cells[feature] = "FAILED"
        visit.leave()
    return cells


def capabilities(revision):
    """What a client of the revision declares in its handshake."""
    return {} if revision in ("2025-03-26", NEWEST) else {"elicitation": {}}


def printed(transport, columns):
    def row(name, cells):
        return "| " + " | ".join([name.ljust(13), *(cell.ljust(17) for cell in cells)]) + " |"

    print()
    print(row(transport, REVISIONS))
    print("|" + "|".join("-" * (width + 2) for width in (13, 17, 17, 17, 17)) + "|")
    for feature in FEATURES:
        print(row(feature.__name__, [cells.get(feature, "FAILED") for cells in columns]))


def main():
    binary, models = sys.argv[1:]
    place = Place(binary, models)

    def attempt(make):
        try:
            return column(make())
        except Exception:
            traceback.print_exc()
            return {}

    stdio = [attempt(lambda: Stdio(place, revision, capabilities(revision))) for revision in REVISIONS]
    over_http = []
    try:
        with place.over_http() as address:
            over_http += [attempt(lambda: Http(address, revision, capabilities(revision))) for revision in REVISIONS]
    except Exception:
        traceback.print_exc()
        over_http += [{}] * (len(REVISIONS) - len(over_http))
    printed("stdio", stdio)
    printed("HTTP", over_http)
    print("\n" + FOOTNOTE)
    complete = all(cells.get(feature, "FAILED") != "FAILED" for cells in stdio + over_http for feature in FEATURES)
    sys.exit(0 if complete else 1)


if __name__ == "__main__":
    main()
