"""The mock domain of tau2-bench: a tiny to-do list that exercises every part of the protocol."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal

from chimera.eval.benchmarks._tau_bench.counter import CounterTools
from chimera.eval.benchmarks._tau_bench.kernel import Record, Toolkit, checked, model, tool

Status = Literal["pending", "completed"]

_task = model("Task", task_id=str, title=str, description=(str | None, None), status=Status)
_user = model("User", user_id=str, name=str, tasks=list[str])
_database = model("MockDB", tasks=dict[str, _task], users=dict[str, _user])  # type: ignore[valid-type]
_notification = model(
    "Notification",
    notification_id=str,
    message=str,
    status=(Literal["unread", "read"], "unread"),
    task_id=(str | None, None),
)
_user_database = model("MockUserDB", notifications=(dict[str, _notification], {}))  # type: ignore[valid-type]


class MockTools(CounterTools):
    official = "MockTools"
    database = _database
    arguments: ClassVar[Mapping[str, str]] = {
        "user_id": "Id of the user, e.g. 'user_1'.",
        "task_id": "Id of the task, e.g. 'task_1'.",
        "title": "Title of the task.",
        "description": "What the task is about.",
        "status": "The new status.",
    }

    @tool("write")
    def create_task(self, user_id: str, title: str, description: str | None = None) -> Record:
        """Create a task for a user."""
        user = self._find("users", "User", user_id)
        task_id = f"task_{len(self.db['tasks']) + 1}"
        fields = {"task_id": task_id, "title": title, "description": description}
        task = checked(_task, {**fields, "status": "pending"})
        self.db["tasks"][task_id] = dict(task)
        user["tasks"].append(task_id)
        return task

    @tool("read")
    def get_users(self) -> Sequence[Record]:
        """List all users."""
        return [Record(user) for user in self.db["users"].values()]

    @tool("write")
    def update_task_status(self, task_id: str, status: Status) -> Record:
        """Set the status of a task."""
        task = self._find("tasks", "Task", task_id)
        task["status"] = status
        return Record(task)

    def assert_number_of_tasks(self, user_id: str, expected_number: int) -> bool:
        return len(self._find("users", "User", user_id)["tasks"]) == expected_number

    def assert_task_status(self, task_id: str, expected_status: str) -> bool:
        return bool(self._find("tasks", "Task", task_id)["status"] == expected_status)


class MockUserTools(Toolkit):
    official = "MockUserTools"
    database = _user_database
    arguments: ClassVar[Mapping[str, str]] = {
        "notification_id": "Id of the notification, e.g. 'notif_1'."
    }

    @tool("read")
    def check_notifications(self) -> Sequence[Record]:
        """See the notifications in your inbox."""
        return [Record(entry) for entry in self.db["notifications"].values()]

    @tool("write")
    def dismiss_notification(self, notification_id: str) -> str:
        """Mark a notification as read."""
        self._find("notifications", "Notification", notification_id)["status"] = "read"
        return f"Notification {notification_id} dismissed"

    def add_notification(
        self, notification_id: str, message: str, task_id: str | None = None
    ) -> None:
        fields = {"notification_id": notification_id, "message": message, "task_id": task_id}
        self.db["notifications"][notification_id] = dict(checked(_notification, fields))

    def assert_notification_status(self, notification_id: str, expected_status: str) -> bool:
        found = self._find("notifications", "Notification", notification_id)
        return bool(found["status"] == expected_status)
