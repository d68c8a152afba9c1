"""A small MCP server of the official SDK, for tests: run as a program."""

from __future__ import annotations

import base64

from mcp.server.mcpserver import Image, MCPServer
from mcp.types import ToolAnnotations

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
server = MCPServer("numbers")


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def add(first: int, second: int) -> str:
    """The sum of two numbers."""
    return str(first + second)


@server.tool()
def fail() -> str:
    """Never works."""
    raise ValueError("it does not work")


@server.tool()
def picture() -> Image:
    """One pixel."""
    return Image(data=PIXEL, format="png")


if __name__ == "__main__":
    server.run()
