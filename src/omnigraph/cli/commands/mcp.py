"""`omnigraph mcp`: a graph as tools for an agent, over stdin and stdout."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from omnigraph.cli.command import Capability, command
from omnigraph.cli.commands.serve import TokenAccess
from omnigraph.cli.options import Actor
from omnigraph.cli.target import GraphArguments

if TYPE_CHECKING:
    from omnigraph.client.mcp import Tool

AccessOption = Annotated[TokenAccess, typer.Option("--access", help="What the agent may do.")]


@command("omnigraph mcp graph.omni", "omnigraph mcp graph.omni --access write --as agent-1", capability=Capability.ANY)
def mcp(target: GraphArguments, *, access: AccessOption = TokenAccess.READ, actor: Actor = None) -> None:
    """Serve a graph to an agent over stdin and stdout.

    Speaks the Model Context Protocol, one message per line, until stdin ends. An agent can read the schema, run queries
    and follow the history; with --access write it can also change the graph.
    """
    client = target.connect(actor=actor, read_only=False).client

    import msgspec

    from omnigraph.base.errors import RefusedError
    from omnigraph.client.mcp import INVOKE_QUERY, TOOLS, answer

    may_write = access is TokenAccess.WRITE
    actions = frozenset(tool.action for tool in TOOLS if tool.is_read or tool.action == INVOKE_QUERY or may_write)

    def call_tool(tool: Tool, arguments: Any) -> Any:
        if tool.action not in actions:
            raise RefusedError(
                f"the tool {tool.name} changes the graph, and this agent may only read",
                code="access_denied",
                hint="Start `omnigraph mcp` with `--access write`.",
            )
        if tool.action == INVOKE_QUERY and not may_write:
            arguments = msgspec.structs.replace(arguments, expect_mutation=False)
        return tool.run(client, arguments)

    for line in sys.stdin.buffer:
        reply = answer(line, call_tool, actions) if line.strip() else None
        if reply is not None:
            sys.stdout.buffer.write(reply + b"\n")
            sys.stdout.buffer.flush()
