"""The client libraries of PyPI, each as the same kind of visitor."""

import asyncio
import contextlib

import mcp_types
from fastmcp import Client as FastClient
from fastmcp.client.transports import StdioTransport
from mcp import Client, StdioServerParameters
from mcp.client.subscriptions import listen

NEWEST_WITH_HANDSHAKE = "2025-11-25"
NEWEST = "2026-07-28"


class Visitor:
    """A connected client. Says yes to what the server asks it, and remembers which resources changed."""

    name = ""

    def __init__(self):
        self.asked = []
        self.updated = asyncio.Queue()

    @property
    def is_modern(self):
        return self.client.protocol_version == NEWEST

    async def hear(self, message):
        """Every notification of the server."""
        if isinstance(message, mcp_types.ResourceUpdatedNotification):
            await self.updated.put(str(message.params.uri))

    def consent(self, params):
        """What a user who agrees fills in: yes to what is a yes or no, else the first that is offered."""
        self.asked.append(params.message)
        properties = params.requested_schema["properties"]
        return {
            name: True if schema["type"] == "boolean" else schema.get("enum", ["yes"])[0]
            for name, schema in properties.items()
        }

    @contextlib.asynccontextmanager
    async def watching(self, uri):
        """While inside, changes of `uri` come to `updated`."""
        if not self.is_modern:
            await self.client.session.subscribe_resource(uri)
            yield
            await self.client.session.unsubscribe_resource(uri)
            return
        async with listen(self.client.session, resource_subscriptions=[uri]) as subscription:
            assert subscription.honored.resource_subscriptions == [uri], subscription.honored

            async def forward():
                async for event in subscription:
                    await self.updated.put(event.uri)

            forwarding = asyncio.create_task(forward())
            yield
            forwarding.cancel()


class Official(Visitor):
    name = "mcp"

    @classmethod
    @contextlib.asynccontextmanager
    async def visit(cls, place, address, mode):
        visitor = cls()
        server = address or StdioServerParameters(
            command=place.binary, args=place.arguments("serve"), env=place.env
        )
        async with Client(
            server, mode=mode, elicitation_callback=visitor.elicited, message_handler=visitor.hear
        ) as visitor.client:
            yield visitor

    async def elicited(self, _context, params):
        return mcp_types.ElicitResult(action="accept", content=self.consent(params))

    async def call(self, tool, arguments, progress=None):
        return await self.client.call_tool(tool, arguments, progress_callback=progress)

    async def tools(self):
        return (await self.client.list_tools()).tools

    async def resources(self):
        return (await self.client.list_resources()).resources

    async def templates(self):
        return (await self.client.list_resource_templates()).resource_templates

    async def read(self, uri):
        return (await self.client.read_resource(uri)).contents

    async def complete(self, ref, argument):
        return (await self.client.complete(ref, argument)).completion

    async def prompts(self):
        return (await self.client.list_prompts()).prompts

    async def prompt(self, name, arguments):
        return (await self.client.get_prompt(name, arguments)).messages


class Fast(Visitor):
    name = "fastmcp"

    @classmethod
    @contextlib.asynccontextmanager
    async def visit(cls, place, address, mode):
        visitor = cls()
        server = address or StdioTransport(
            place.binary, place.arguments("serve"), env=place.env, keep_alive=False
        )
        async with FastClient(
            server, mode=mode, elicitation_handler=visitor.elicited, message_handler=visitor.hear
        ) as visitor.client:
            yield visitor

    async def elicited(self, _message, _kind, params, _context):
        return self.consent(params)

    async def call(self, tool, arguments, progress=None):
        return await self.client.call_tool_mcp(tool, arguments, progress_handler=progress)

    async def tools(self):
        return await self.client.list_tools()

    async def resources(self):
        return await self.client.list_resources()

    async def templates(self):
        return await self.client.list_resource_templates()

    async def read(self, uri):
        return await self.client.read_resource(uri)

    async def complete(self, ref, argument):
        return await self.client.complete(ref, argument)

    async def prompts(self):
        return await self.client.list_prompts()

    async def prompt(self, name, arguments):
        return (await self.client.get_prompt(name, arguments)).messages


# Each library in each era that it can speak.
VISITS = [
    (Official, "legacy", NEWEST_WITH_HANDSHAKE),
    (Official, "auto", NEWEST),
    (Fast, "legacy", NEWEST_WITH_HANDSHAKE),
    (Fast, "auto", NEWEST),
]
