"""The official Python client against `poste mcp`: client.py POSTE FOLDER

The folder has an office with an agent `wren`, and one message for it. Every step must succeed, in the stateless revision and
with the handshake of older ones.
"""

import asyncio
import json
import os
import sys

from mcp import Client, StdioServerParameters

SUBJECT = "a letter for the client"


async def talk(poste: str, folder: str, mode: str, expected: str) -> None:
    # It gets only these variables: without the state folder, the office is not adopted.
    env = {"POSTE_AGENT": "wren", "XDG_STATE_HOME": os.environ["XDG_STATE_HOME"]}
    server = StdioServerParameters(command=poste, args=["mcp"], cwd=folder, env=env)
    async with Client(server, mode=mode, read_timeout_seconds=20) as client:
        assert client.protocol_version == expected, client.protocol_version
        assert client.server_info.name == "poste", client.server_info
        assert client.instructions, "the server says nothing about itself"

        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert len(tools) <= 10, sorted(tools)
        for name in ["send_message", "check_inbox", "read_message", "claim_work", "finish_work", "reply"]:
            assert tools[name].output_schema, f"{name} has no output schema"
            assert tools[name].annotations, f"{name} has no annotations"

        inbox = await client.call_tool("check_inbox", {})
        assert not inbox.is_error, inbox
        assert SUBJECT in json.dumps(inbox.structured_content), inbox
        assert any(SUBJECT in block.text for block in inbox.content), inbox

        wrong = await client.call_tool("send_message", {"to": "nobody-at-all", "subject": "x", "body": "y"})
        assert wrong.is_error, wrong

        resources = (await client.list_resources()).resources
        assert resources, "there is no resource"
        for resource in resources:
            read = await client.read_resource(resource.uri)
            assert read.contents, resource

        prompts = {prompt.name for prompt in (await client.list_prompts()).prompts}
        for name in ["inbox", "handoff", "start-session", "close-session"]:
            assert name in prompts, sorted(prompts)
        assert (await client.get_prompt("inbox", {})).messages

    print(f"Python client, {expected}: {len(tools)} tools, {len(resources)} resources, {len(prompts)} prompts")


async def main() -> None:
    poste, folder = sys.argv[1:]
    await talk(poste, folder, "auto", "2026-07-28")
    await talk(poste, folder, "legacy", "2025-11-25")


asyncio.run(main())
