"""MCP spoken by hand, over pipes and over HTTP, in exactly the revision that is asked for. Standard library only."""

import http.client
import itertools
import json
import subprocess
import threading
import time
from urllib.parse import urlsplit

NEWEST = "2026-07-28"
PATIENCE = 120
META = "io.modelcontextprotocol/"
IDENTITY = {"name": "wire", "version": "1"}
NAMED = {"tools/call", "prompts/get", "resources/read", "tasks/get", "tasks/update", "tasks/cancel"}


class Wire:
    """One connection of a client; what arrives is kept in the order in which it came."""

    def __init__(self, revision, capabilities):
        self.revision = revision
        self.capabilities = capabilities
        self.is_modern = revision >= NEWEST
        self.log = []
        self.arrived = threading.Condition()
        self.ids = itertools.count(1)

    def __enter__(self):
        if self.is_modern:
            answer = self.request("server/discover")
            assert self.revision in answer["result"]["supportedVersions"], answer
        else:
            hello = {"protocolVersion": self.revision, "capabilities": self.capabilities, "clientInfo": IDENTITY}
            answer = self.request("initialize", hello)
            assert answer["result"]["protocolVersion"] == self.revision, answer
            self.notify("notifications/initialized")
        self.server = answer["result"]
        return self

    def start(self, method, params=None, *, token=None, capabilities=None):
        """Sends a request and gives its id."""
        id = next(self.ids)
        self.send({"jsonrpc": "2.0", "id": id, "method": method, **self.framed(params, token, capabilities)})
        return id

    def request(self, method, params=None, **more):
        """The whole answer, be it a result or an error."""
        return self.answer(self.start(method, params, **more))

    def call(self, tool, arguments=None, **more):
        """The structured content of a tool call that must succeed."""
        answer = self.request("tools/call", {"name": tool, "arguments": arguments or {}}, **more)
        assert "result" in answer and not answer["result"].get("isError"), answer
        return answer["result"]["structuredContent"]

    def notify(self, method, params=None):
        self.send({"jsonrpc": "2.0", "method": method, **self.framed(params, None, None)})

    def framed(self, params, token, capabilities):
        """The parameters with what the revision wants to have in `_meta`."""
        meta = {}
        if token is not None:
            meta["progressToken"] = token
        if self.is_modern:
            meta[META + "protocolVersion"] = self.revision
            meta[META + "clientCapabilities"] = capabilities or {}
            meta[META + "clientInfo"] = IDENTITY
        if not meta:
            return {} if params is None else {"params": params}
        return {"params": {**(params or {}), "_meta": meta}}

    def answer(self, id):
        return self.wait(lambda message: message.get("id") == id and "method" not in message)

    def notifications(self, method):
        return [message for message in self.log if message.get("method") == method]

    def wait(self, is_it, since=0):
        """The first message, of those that came after the first `since` and of those to come, that is it."""
        deadline = time.monotonic() + PATIENCE
        with self.arrived:
            while True:
                found = next((message for message in self.log[since:] if is_it(message)), None)
                if found is not None:
                    return found
                if not self.arrived.wait(deadline - time.monotonic()):
                    raise AssertionError(f"nothing came; before that: {self.log[-3:]}")

    def take(self, message):
        """What came in: one message, or the array that answers one."""
        for one in message if isinstance(message, list) else [message]:
            if "method" in one and "id" in one:
                self.send({"jsonrpc": "2.0", "id": one["id"], "result": consent(one)})
            with self.arrived:
                self.log.append(one)
                self.arrived.notify_all()


def consent(request):
    """What a user who agrees answers to a form."""
    assert request["method"] == "elicitation/create", request
    properties = request["params"]["requestedSchema"]["properties"]
    content = {
        name: True if schema["type"] == "boolean" else schema.get("enum", ["yes"])[0]
        for name, schema in properties.items()
    }
    return {"action": "accept", "content": content}


class Stdio(Wire):
    """A server of its own at the other end of two pipes."""

    def __init__(self, place, revision, capabilities):
        super().__init__(revision, capabilities)
        self.writing = threading.Lock()
        self.process = subprocess.Popen(
            [place.binary, *place.arguments("serve")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=place.env,
        )
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            self.take(json.loads(line))

    def send(self, message):
        with self.writing:
            self.process.stdin.write(json.dumps(message).encode() + b"\n")
            self.process.stdin.flush()

    def cancel(self, id):
        self.notify("notifications/cancelled", {"requestId": id, "reason": "no longer wanted"})

    def batch(self, messages):
        """Sends an array; gives all that is said to it, as it is said."""
        self.send(messages)
        wanted = {message["id"] for message in messages}
        self.wait(lambda _: wanted <= {one.get("id") for one in self.log} or any(unasked(one) for one in self.log))
        return [one for one in self.log if one.get("id") in wanted or unasked(one)]

    def __exit__(self, *failure):
        self.process.stdin.close()
        code = self.process.wait(timeout=PATIENCE)
        self.reader.join()
        self.process.stdout.close()
        assert failure[0] or code == 0, f"the server ended with {code}"


def unasked(message):
    """An error that belongs to no request."""
    return "error" in message and message.get("id") is None


class Http(Wire):
    """A client of a server that others use as well. Each request has a connection and a thread."""

    def __init__(self, address, revision, capabilities):
        super().__init__(revision, capabilities)
        self.address = urlsplit(address)
        self.session = None
        self.connections = {}

    def __enter__(self):
        super().__enter__()
        if not self.is_modern:
            opened = threading.Event()
            threading.Thread(target=self.listen, args=(opened,), daemon=True).start()
            assert opened.wait(PATIENCE), "the server opens no stream"
        return self

    def headers(self, message):
        headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        if self.is_modern:
            headers |= {"MCP-Protocol-Version": self.revision, "Mcp-Method": message["method"]}
            params = message.get("params", {})
            name = params.get("taskId") or params.get("name") or params.get("uri")
            if name and message["method"] in NAMED:
                headers["Mcp-Name"] = name
        elif self.session:
            headers["Mcp-Session-Id"] = self.session
            # The header came with the revision after the one that brought sessions.
            if self.revision > "2025-03-26":
                headers["MCP-Protocol-Version"] = self.revision
        return headers

    def send(self, message):
        connection = http.client.HTTPConnection(self.address.netloc, timeout=PATIENCE)
        connection.request("POST", self.address.path, json.dumps(message).encode(), self.headers(message))
        if "id" not in message or "method" not in message:
            response = connection.getresponse()
            assert response.status == 202, (response.status, response.read())
            connection.close()
            return
        self.connections[message["id"]] = connection
        threading.Thread(target=self.receive, args=(connection,), daemon=True).start()

    def receive(self, connection):
        """Reads one response to its end, or until its connection is closed under it."""
        try:
            response = connection.getresponse()
            self.session = response.getheader("Mcp-Session-Id") or self.session
            for message in messages_of(response):
                self.take(message)
        except (OSError, http.client.HTTPException, ValueError):
            # Closed by `cancel`; a request that misses its answer for another reason fails by its wait.
            pass

    def listen(self, opened):
        """The stream for what belongs to no request, in the revisions that have it."""
        connection = http.client.HTTPConnection(self.address.netloc)
        headers = {**self.headers({}), "Accept": "text/event-stream"}
        connection.request("GET", self.address.path, headers=headers)
        response = connection.getresponse()
        assert response.status == 200, (response.status, response.read())
        opened.set()
        for message in messages_of(response):
            self.take(message)

    def cancel(self, id):
        if self.is_modern:
            self.connections[id].sock.shutdown(2)
        else:
            self.notify("notifications/cancelled", {"requestId": id, "reason": "no longer wanted"})

    def batch(self, messages):
        """Sends an array; gives all that is said to it, as it is said."""
        connection = http.client.HTTPConnection(self.address.netloc, timeout=PATIENCE)
        headers = self.headers(messages[0])
        connection.request("POST", self.address.path, json.dumps(messages).encode(), headers)
        said = []
        for message in messages_of(connection.getresponse()):
            said += message if isinstance(message, list) else [message]
        connection.close()
        return said

    def __exit__(self, *_failure):
        if self.session:
            connection = http.client.HTTPConnection(self.address.netloc, timeout=PATIENCE)
            connection.request("DELETE", self.address.path, headers=self.headers({}))
            connection.getresponse().read()
            connection.close()


def messages_of(response):
    """The JSON of a response, which is one document or one a server-sent event."""
    if not response.getheader("Content-Type", "").startswith("text/event-stream"):
        yield json.loads(response.read())
        return
    event = []
    for line in response:
        line = line.decode().rstrip("\r\n")
        if line.startswith("data:"):
            event.append(line.removeprefix("data:").removeprefix(" "))
        elif not line and event:
            text = "\n".join(event)
            event = []
            # An event without a message only carries the place from which to go on.
            if text:
                yield json.loads(text)
