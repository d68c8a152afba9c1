"""A small agent of the Agent Client Protocol: asks its model, then writes what it was told to."""

import json
import os
import pathlib
import sys
import urllib.request


def send(message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def ask(number, method, parameters):
    send({"id": number, "method": method, "params": parameters})
    return json.loads(sys.stdin.readline())


def think(prompt):
    """What the model says, where one is offered."""
    address = os.environ.get("OPENAI_BASE_URL")
    if address is None:
        return "hello"
    body = {"model": "m", "messages": [{"role": "user", "content": prompt}]}
    headers = {"authorization": "Bearer " + os.environ["OPENAI_API_KEY"]}
    request = urllib.request.Request(
        address + "/chat/completions", json.dumps(body).encode(), headers
    )
    with urllib.request.urlopen(request) as reply:
        return json.load(reply)["choices"][0]["message"]["content"]


def tell(update):
    send({"method": "session/update", "params": {"sessionId": "s", "update": update}})


def work(prompt):
    words = think(prompt)
    call = {"sessionUpdate": "tool_call", "toolCallId": "c", "title": "write"}
    tell({**call, "rawInput": {"path": "out.txt"}})
    options = [{"optionId": "no", "kind": "reject_once"}, {"optionId": "go", "kind": "allow_once"}]
    left = ask(100, "session/request_permission", {"sessionId": "s", "options": options})
    if left["result"]["outcome"]["optionId"] == "go":
        path = str(pathlib.Path.cwd() / "out.txt")
        ask(101, "fs/write_text_file", {"sessionId": "s", "path": path, "content": words + "\n"})
        read = ask(102, "fs/read_text_file", {"sessionId": "s", "path": path})
        assert read["result"]["content"] == words + "\n", read
    missing = ask(103, "fs/read_text_file", {"sessionId": "s", "path": "/nowhere"})
    assert "error" in missing, missing
    assert ask(104, "terminal/create", {})["error"]["code"] == -32601
    tell({"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "completed"})
    content = {"type": "text", "text": "Written."}
    tell({"sessionUpdate": "agent_message_chunk", "content": content})


for line in sys.stdin:
    message = json.loads(line)
    result = {}
    if message["method"] == "session/new":
        print("not JSON: a log line that does not belong here", flush=True)
        result = {"sessionId": "s"}
    elif message["method"] == "session/prompt":
        work(message["params"]["prompt"][0]["text"])
        result = {"stopReason": "end_turn"}
    send({"id": message["id"], "result": result})
