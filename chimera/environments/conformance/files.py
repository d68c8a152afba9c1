"""Files: binary-safe, complete, and never a way out of the environment."""

from __future__ import annotations

import os
import secrets
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from chimera.environments.base import EnvironmentSpec, Machine
from chimera.environments.conformance.base import Start, expect
from chimera.errors import EnvironmentFault

REPORT = """<testsuite><testcase classname="a" name="one"/>\
<testcase classname="a" name="two">{}</testcase></testsuite>"""


def refused(action: Callable[[], object], kind: type[OSError] = OSError) -> bool:
    try:
        action()
    except kind:
        return True
    return False


@contextmanager
def host_secret() -> Iterator[tuple[Path, bytes]]:
    """A file on the host that nothing inside may read or change."""
    with tempfile.TemporaryDirectory(prefix="chimera-check-") as directory:
        path = Path(directory).resolve() / "secret"
        content = secrets.token_hex(16).encode()
        path.write_bytes(content)
        yield path, content
        expect(path.read_bytes() == content, "a file on the host was changed")
        expect(list(path.parent.iterdir()) == [path], "a file was made on the host")


def bytes_survive(env: Machine) -> None:
    """Any bytes, any length, in directories that are made on the way; text is UTF-8."""
    for name, content in (
        ("all", bytes(range(256))),
        ("empty", b""),
        ("deep/er/large", os.urandom(3_000_000)),
        ("with space & 'quotes'", b"q"),
        ("-dash", b"d"),
    ):
        env.write_file(name, content)
        expect(env.read_file(name) == content, f"{name} came back changed")
    env.write_file("all", "naïve\n")
    expect(env.read_file("all") == "naïve\n".encode(), "overwriting left something behind")
    expect(
        env.run_command(["cat", "all"]).stdout.decode() == "naïve\n", "commands see another file"
    )
    absolute = f"{env.workdir}/absolute"
    env.write_file(absolute, b"1")
    expect(env.read_file("absolute") == b"1", "an absolute path is another file")


def wrong_paths_are_told(env: Machine) -> None:
    env.write_file("folder/file", b"")
    expect(refused(lambda: env.read_file("absent"), FileNotFoundError), "an absent file was read")
    expect(refused(lambda: env.read_file("folder"), IsADirectoryError), "a directory was read")
    expect(refused(lambda: env.write_file("folder", b"")), "a directory was overwritten")
    with tempfile.TemporaryDirectory() as host:
        missing = refused(lambda: env.copy_out("absent", Path(host, "x")), FileNotFoundError)
        expect(missing, "an absent file was copied out")
        missing = refused(lambda: env.copy_in(Path(host, "absent"), "x"), FileNotFoundError)
        expect(missing, "an absent file was copied in")


def special_files_do_not_hang(env: Machine) -> None:
    """A pipe or a device is refused, not waited for."""
    env.run_command("rm -f pipe zero; mkfifo pipe; ln -s /dev/zero zero")
    expect(refused(lambda: env.read_file("pipe")), "a named pipe was read")
    expect(refused(lambda: env.read_file("zero")), "an endless device was read")
    env.run_command("rm -f pipe zero")


def huge_files_are_refused(env: Machine) -> None:
    """A file that is all holes costs an agent nothing, and must not cost the host its memory."""
    made = env.run_command("truncate -s 1900M holes || head -c 1900000000 /dev/zero > holes")
    if made.success:
        expect(refused(lambda: env.read_file("holes")), "a huge file was read into memory")
    env.run_command("rm -f holes")


def files_are_listed(env: Machine) -> None:
    env.run_command("rm -rf listing; mkdir -p listing/a/b; cd listing; touch x.py a/y.py a/b/z.txt")
    env.run_command("cd listing; ln -s /etc link; ln -s x.py link.py; touch 'new\nline'")
    every = [name for name in env.list_files() if name.startswith("listing/")]
    wanted = ["listing/a/b/z.txt", "listing/a/y.py", "listing/new\nline", "listing/x.py"]
    expect(every == wanted, f"listed {every}")
    expect(env.list_files("listing/*.py") == ["listing/x.py"], "a pattern matched wrongly")
    python = env.list_files("listing/**/*.py")
    expect(python == ["listing/a/y.py", "listing/x.py"], f"** matched {python}")


def copies_are_complete(env: Machine) -> None:
    """Directories, the execute bit, and links as links, both ways."""
    with tempfile.TemporaryDirectory() as host:
        source = Path(host, "source")
        (source / "sub").mkdir(parents=True)
        (source / "sub" / "data").write_bytes(bytes(range(256)))
        (source / "run.sh").write_text("#!/bin/sh\necho ran\n")
        (source / "run.sh").chmod(0o755)
        (source / "link").symlink_to("sub/data")
        env.copy_in(source, "copied/in")
        expect(env.run_command("./run.sh", cwd="copied/in").stdout == b"ran\n", "not executable")
        expect(env.read_file("copied/in/sub/data") == bytes(range(256)), "content changed")
        env.copy_in(source / "run.sh", "copied/single")
        expect(env.run_command("copied/single").stdout == b"ran\n", "a file lost its mode")
        env.copy_out("copied/in", Path(host, "out"))
        expect(
            Path(host, "out", "sub", "data").read_bytes() == bytes(range(256)), "copy_out changed"
        )
        expect(os.access(Path(host, "out", "run.sh"), os.X_OK), "copy_out lost the execute bit")
        env.copy_out("copied/in/sub/data", Path(host, "single"))
        expect(Path(host, "single").read_bytes() == bytes(range(256)), "a single file changed")
        env.copy_out(".", Path(host, "all"))
        expect(Path(host, "all", "copied", "single").is_file(), "the workdir is not copied whole")
        expect(not list(Path(host).glob(".chimera-*")), "copy_out left temporary files")


def a_program_can_be_run_as_soon_as_it_is_there(env: Machine) -> None:
    """Nobody holds a copied file open for writing any more, which would keep it from being run."""
    with tempfile.TemporaryDirectory() as host:
        source = Path(host, "run.sh")
        source.write_text("#!/bin/sh\necho ran\n")
        source.chmod(0o755)
        for number in range(20):
            env.copy_in(source, f"programs/{number}")
            ran = env.run_command([f"programs/{number}"])
            expect(ran.stdout == b"ran\n", f"a new program did not run: {ran.output}")


def links_lead_nowhere(env: Machine) -> None:
    """Links that an agent plants do not make the host read or write its own files."""
    with host_secret() as (path, content):
        env.run_command(
            ["sh", "-c", 'rm -rf trap; mkdir trap; ln -s "$1" trap/file; ln -s "$2" trap/dir',
             "sh", str(path), str(path.parent)]
        )  # fmt: skip
        for name in ("trap/file", "trap/dir/secret", str(path), f"../../../../../..{path}"):
            found = b""
            try:
                found = env.read_file(name)
            except OSError:
                continue
            expect(found != content, f"reading {name} gave a file of the host")
        for name in ("trap/file", "trap/dir/planted", f"{path.parent}/planted"):
            try:
                env.write_file(name, b"overwritten")
            except OSError:
                continue
        with tempfile.TemporaryDirectory() as host:
            env.copy_in(path, "trap/copy")
            for name in ("trap", "trap/file", "trap/dir", "trap/dir/secret"):
                try:
                    env.copy_out(name, Path(host, "out"))
                except (OSError, EnvironmentFault):
                    continue
            for copied in Path(host).rglob("*"):
                outside = copied.is_file() and copied.name != "copy"
                stolen = outside and copied.read_bytes() == content
                expect(not stolen, f"copy_out followed a link to {copied.name}")


def copies_out_stay_in_place(env: Machine) -> None:
    """A link already copied out is not written through by the next copy."""
    with host_secret() as (path, _), tempfile.TemporaryDirectory() as host:
        env.run_command(["sh", "-c", 'rm -rf o; mkdir o; ln -s "$1" o/x', "sh", str(path)])
        try:
            env.copy_out("o", Path(host, "o"))
        except (OSError, EnvironmentFault):
            Path(host, "o").mkdir(exist_ok=True)
        Path(host, "o", "x").unlink(missing_ok=True)
        Path(host, "o", "x").symlink_to(path)
        env.run_command("rm -rf o; mkdir o; echo overwritten > o/x")
        env.copy_out("o", Path(host, "o"))
        expect(Path(host, "o", "x").read_bytes() == b"overwritten\n", "the copy did not arrive")


def test_reports_decide(env: Machine) -> None:
    """Without a report nothing passed; one that the exit code contradicts is an error."""
    for script, passed in (
        (f"echo '{REPORT.format('')}' > {{report}}", True),
        (f"echo '{REPORT.format('<failure/>')}' > {{report}}; exit 1", False),
        (f"echo '{REPORT.format('<error/>')}' > {{report}}", False),
        (f"echo '{REPORT.format('')}' > {{report}}; exit 1", False),
        ("echo 2 passed; : {report}", False),
        ("echo '<testsuite/>' > {report}", False),
        ("echo '<testsuite><testcase' > {report}", False),
    ):
        result = env.run_tests(script)
        expect(result.all_passed is passed, f"{script!r} gave {result}")


def the_spec_is_carried_out(start: Start) -> None:
    """Files, variables and set-up commands are in place when the environment is handed over."""
    with tempfile.TemporaryDirectory() as host:
        Path(host, "tree").mkdir()
        Path(host, "tree", "leaf").write_bytes(b"leaf")
        spec = EnvironmentSpec(
            files={"given/data": b"\0\1", "tree": Path(host, "tree")},
            setup=("echo $COLOUR > made", "test -f given/data"),
            variables={"COLOUR": "blue"},
        )
        with start(spec) as env:
            expect(env.read_file("given/data") == b"\0\1", "a file is missing")
            expect(env.read_file("tree/leaf") == b"leaf", "a directory is missing")
            expect(env.read_file("made") == b"blue\n", "the set-up was not run")
            expect(env.run_command("echo $COLOUR").stdout == b"blue\n", "a variable is missing")


def failed_setup_is_a_fault(start: Start) -> None:
    try:
        env = start(EnvironmentSpec(setup=("echo no such thing >&2; exit 3",)))
    except EnvironmentFault as fault:
        expect("no such thing" in str(fault), f"the fault does not say why: {fault}")
        return
    env.close()
    raise AssertionError("an environment whose set-up failed was handed over")


SHARED = (
    bytes_survive,
    wrong_paths_are_told,
    special_files_do_not_hang,
    huge_files_are_refused,
    files_are_listed,
    copies_are_complete,
    a_program_can_be_run_as_soon_as_it_is_there,
    links_lead_nowhere,
    copies_out_stay_in_place,
    test_reports_decide,
)
FRESH = (the_spec_is_carried_out, failed_setup_is_a_fault)
