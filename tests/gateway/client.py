"""A small agent of its own: speaks one wire format, runs the model's commands until it is done.

python3 client.py FORMAT < prompt
"""

import json
import os
import subprocess
import sys
import urllib.error
import urllib.request

FORMAT = sys.argv[1]
SCHEMA = {"type": "object", "properties": {"command": {"type": "string"}}}


def post(address, headers, body):
    request = urllib.request.Request(address, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request) as reply:
        lines = reply.read().decode().split("\n")
    datas = [line[6:] for line in lines if line.startswith("data: ") and line != "data: [DONE]"]
    return [json.loads(data) for data in datas]


def chat(turns):
    messages = []
    for kind, value in turns:
        if kind == "user":
            messages.append({"role": "user", "content": value})
        elif kind == "call":
            function = {"name": "bash", "arguments": json.dumps({"command": value})}
            call = {"id": "id", "type": "function", "function": function}
            messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        else:
            messages.append({"role": "tool", "tool_call_id": "id", "content": value})
    tool = {"type": "function", "function": {"name": "bash", "parameters": SCHEMA}}
    body = {"model": "m", "messages": messages, "tools": [tool], "stream": True}
    bearer = {"authorization": "Bearer " + os.environ["OPENAI_API_KEY"]}
    text = arguments = ""
    for chunk in post(os.environ["OPENAI_BASE_URL"] + "/chat/completions", bearer, body):
        for choice in chunk["choices"]:
            text += choice["delta"].get("content") or ""
            for call in choice["delta"].get("tool_calls", ()):
                arguments += call["function"]["arguments"]
    return text, json.loads(arguments)["command"] if arguments else None


def responses(turns):
    items = []
    for kind, value in turns:
        if kind == "user":
            items.append({"role": "user", "content": [{"type": "input_text", "text": value}]})
        elif kind == "call":
            arguments = json.dumps({"command": value})
            call = {"type": "function_call", "call_id": "id", "name": "bash"}
            items.append({**call, "arguments": arguments})
        else:
            items.append({"type": "function_call_output", "call_id": "id", "output": value})
    tool = {"type": "function", "name": "bash", "parameters": SCHEMA}
    body = {"model": "m", "input": items, "tools": [tool], "stream": True}
    bearer = {"authorization": "Bearer " + os.environ["OPENAI_API_KEY"]}
    events = post(os.environ["OPENAI_BASE_URL"] + "/responses", bearer, body)
    text, command = "", None
    for item in events[-1]["response"]["output"]:
        if item["type"] == "message":
            text = item["content"][0]["text"]
        else:
            command = json.loads(item["arguments"])["command"]
    return text, command


def anthropic(turns):
    messages = []
    for kind, value in turns:
        if kind == "user":
            messages.append({"role": "user", "content": value})
        elif kind == "call":
            call = {"type": "tool_use", "id": "id", "name": "bash", "input": {"command": value}}
            messages.append({"role": "assistant", "content": [call]})
        else:
            result = {"type": "tool_result", "tool_use_id": "id", "content": value}
            messages.append({"role": "user", "content": [result]})
    tools = [{"name": "bash", "input_schema": SCHEMA}]
    body = {"model": "m", "max_tokens": 99, "messages": messages, "tools": tools, "stream": True}
    headers = {"x-api-key": os.environ["ANTHROPIC_API_KEY"], "anthropic-beta": "some-beta"}
    text = arguments = ""
    for event in post(os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages?beta=true", headers, body):
        delta = event.get("delta", {})
        text += delta.get("text", "")
        arguments += delta.get("partial_json", "")
    return text, json.loads(arguments)["command"] if arguments else None


def gemini(turns):
    contents = []
    for kind, value in turns:
        if kind == "user":
            contents.append({"role": "user", "parts": [{"text": value}]})
        elif kind == "call":
            call = {"functionCall": {"name": "bash", "args": {"command": value}}}
            contents.append({"role": "model", "parts": [call]})
        else:
            result = {"functionResponse": {"name": "bash", "response": {"output": value}}}
            contents.append({"role": "user", "parts": [result]})
    declared = {"name": "bash", "parametersJsonSchema": SCHEMA}
    body = {"contents": contents, "tools": [{"functionDeclarations": [declared]}]}
    address = os.environ["GOOGLE_GEMINI_BASE_URL"] + "/v1beta/models/m:streamGenerateContent"
    headers = {"x-goog-api-key": os.environ["GEMINI_API_KEY"]}
    text, command = "", None
    for chunk in post(address + "?alt=sse", headers, body):
        for part in chunk["candidates"][0]["content"]["parts"]:
            text += part.get("text", "")
            if "functionCall" in part:
                command = part["functionCall"]["args"]["command"]
    return text, command


turns = [("user", sys.stdin.read())]
while True:
    try:
        text, command = globals()[FORMAT](turns)
    except urllib.error.HTTPError as error:
        print(error.code, error.read().decode())
        sys.exit(1)
    if command is None:
        print(text)
        break
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    turns += [("call", command), ("result", done.stdout + done.stderr)]
