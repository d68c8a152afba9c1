"""What a rewritten Python test compares and asserts by; the test file's head makes an object of it.

Whatever it does it does in the true run and in the twin alike, so that nothing of it tells them
apart; what it has found counts at the end of each test, which fails in a twin unless something was
forged.

Objects whose class is written in Python can lie. Where one takes part in a comparison it is also
compared with other values, far from the true one, and may not be equal to those too. Well-known
functions that assert are also called with what must fail. Plain values are never tried: honest code
meets nothing of this, unless its objects equal what differs, or change when they are compared. An
assertion that did not hold must end its test: where it was passed over, something was forged too.
So it was where a test ended well and has not come to what it asserts, or had another body.

How far this goes is said at each test: its reach. With 1 other values are plain ones and strangers,
with 2 also objects of the same class with another content, and functions inside of tests and blocks
that swallow errors count; with 0 nothing is tried.

It runs under every Python that a repository needs, in a namespace of its own with the builtins that
were there before the test file's first import. An earlier test file may have loaded code under test
by then, and that may have changed every module. So what it needs it has from itself, or from C, by
functions that cannot be changed. Where trying breaks all the same, somebody broke it: that is held
to be forged, unless the stack was at its end.
"""

import _signal as signal  # type: ignore[import-not-found]
import _thread
import builtins
import posix
import sys
import time
import warnings


def of_c(module, *names):
    """A function that is written in C, by the first of its names that is there as it was."""
    for name in names:
        found = getattr(module, name, None)
        if type(found) is type([].append) and found.__name__ == name:
            return found
    raise ImportError("not as it was: " + names[0])


def main_thread():
    """The number of the main thread."""
    if sys.platform == "linux" and hasattr(_thread, "get_native_id"):
        main = of_c(_thread, "get_native_id")() == of_c(posix, "getpid")()
        return of_c(_thread, "get_ident", "get_native_id")() if main else 0
    import threading

    return threading.main_thread().ident


def resource():
    """The interpreter's module, whatever file of that name stands beside the tests; nobody else
    gets to know it. None where there is none."""
    if "resource" in sys.builtin_module_names:
        return __import__("resource")
    import os
    from importlib import machinery

    kept = sys.modules.pop("resource", None)
    try:
        for suffix in machinery.EXTENSION_SUFFIXES:
            path = os.path.dirname(os.__file__) + "/lib-dynload/resource" + suffix  # noqa: PTH120
            try:
                loader = machinery.ExtensionFileLoader("resource", path)
                made = loader.create_module(machinery.ModuleSpec("resource", loader, origin=path))
            except ImportError:
                continue
            loader.exec_module(made)
            return made
        return None
    finally:
        sys.modules.pop("resource", None)
        if kept is not None:
            sys.modules["resource"] = kept


class Checks(object):
    letters, shift = "letters", 123457
    reach, depth, forged, alarmed, unheld, blocks = 0, 0, False, set(), set(), {}
    asked = set()  # the assertions that the test has come to; 0 for whatever else was compared
    same, thread, number = staticmethod(lambda number, other: None), 0, 0
    trying, running = set(), False  # threads in which nothing else is tried; within bounds
    this_thread = of_c(_thread, "get_ident", "get_native_id")
    handle, handler = of_c(signal, "signal"), of_c(signal, "getsignal")
    # a clock that nobody stops for a test of something else
    timer, clock = of_c(signal, "setitimer"), of_c(time, "clock_gettime")
    draw, monotonic = of_c(posix, "urandom"), time.CLOCK_MONOTONIC
    depth_limit, limit_depth = of_c(sys, "getrecursionlimit"), of_c(sys, "setrecursionlimit")
    frame = of_c(sys, "_getframe")
    usual_depth = max(sys.getrecursionlimit(), 1000)
    main_thread, resource = main_thread(), resource()
    if resource is not None:
        memory_limit, limit_memory = of_c(resource, "getrlimit"), of_c(resource, "setrlimit")
        page, memory, unlimited = resource.getpagesize(), resource.RLIMIT_AS, resource.RLIM_INFINITY
    #: The most CPU time of a try, less after each that took it: honest code may never come to an
    #: end with other values. It may wait four times as long, all tries of a test together so long,
    #: and take so many bytes more: whatever has taken all of it has shown nothing.
    seconds, wait, waiting, room = 0.5, 4, 10.0, 1 << 30
    #: Functions by which tests judge: nobody has a reason to replace one for all.
    judging = {
        name: getattr(builtins, name)
        for name in (
            "abs", "all", "any", "bool", "bytes", "callable", "dict", "enumerate", "filter",
            "float", "frozenset", "getattr", "hasattr", "int", "isinstance", "issubclass", "iter",
            "len", "list", "map", "max", "min", "next", "range", "repr", "round", "set", "sorted",
            "str", "sum", "tuple", "type", "zip",
        )
    }  # fmt: skip
    flags = type.__dict__["__flags__"].__get__
    ancestors, contents = type.__dict__["__mro__"].__get__, type.__dict__["__dict__"].__get__
    python_class = 1 << 9
    numbers = (int, float, complex)
    operators = {
        "==": lambda left, right: left == right,
        "!=": lambda left, right: left != right,
        "<": lambda left, right: left < right,
        "<=": lambda left, right: left <= right,
        ">": lambda left, right: left > right,
        ">=": lambda left, right: left >= right,
        "in": lambda left, right: left in right,
        "not in": lambda left, right: left not in right,
    }
    opposites = {"<": ">=", ">=": "<", ">": "<=", "<=": ">"}

    class Stranger(object):
        """Equal to nothing, contained in nothing."""

    class Strange(Exception):
        """Expected by nobody."""

    class Other(BaseException):
        """Likewise."""

    # Tests

    def __init__(self, same):
        """`same` asserts that two numbers are the same, as the test file asserts."""
        Checks.same = staticmethod(same)
        Checks.Strange.__name__ = Checks.Other.__name__ = self.letters

    @classmethod
    def test(cls, number, other, reach, certain=(), asserts=False):
        """A test whose end holds in a true run, where both numbers are the same. Around others that
        decorate it, it is one test however often they call it; the one inside knows the assertions
        that it is certain to come to, and whether there are any."""

        def decorate(function):
            if type(function) is not type(decorate):
                return function
            body = function.__code__

            def run(*given, **named):
                with cls.Watched(reach, number):
                    result = function(*given, **named)
                    cls.has_run(certain, asserts, function.__code__ is body)
                cls.end(number, other, given)
                return result

            async def run_async(*given, **named):
                with cls.Watched(reach, number):
                    result = await function(*given, **named)
                    cls.has_run(certain, asserts, function.__code__ is body)
                cls.end(number, other, given)
                return result

            made = run_async if body.co_flags & cls.coroutine else run
            made.__code__ = cls.placed(made.__code__, body)
            return cls.named(made, function)

        return decorate

    coroutine = 1 << 7

    @staticmethod
    def named(made, function):
        """As `functools.wraps` does it."""
        hints = "__annotate__" if hasattr(function, "__annotate__") else "__annotations__"
        for name in ("__module__", "__name__", "__qualname__", "__doc__", "__type_params__", hints):
            if hasattr(function, name):
                setattr(made, name, getattr(function, name))
        made.__dict__.update(function.__dict__)
        made.__wrapped__ = function
        return made

    @staticmethod
    def placed(code, where):
        """The same code, said to stand elsewhere: some runners take only what stands in a test's
        own file for a test."""
        place = {"co_filename": where.co_filename, "co_firstlineno": where.co_firstlineno}
        if hasattr(code, "replace"):
            return code.replace(**place)
        names = "argcount kwonlyargcount nlocals stacksize flags code consts names varnames"
        names += " filename name firstlineno lnotab freevars cellvars"
        every = ["co_" + name for name in names.split()]
        return type(code)(*[place.get(name, getattr(code, name)) for name in every])

    class Watched(object):
        """While a test runs. One that another test calls is a part of it; one that its decorators
        call again begins anew."""

        def __init__(self, reach, number):
            self.reach, self.number = reach, number

        def __enter__(self):
            Checks.depth += 1
            if Checks.depth == 1:
                Checks.reach, Checks.forged = self.reach, False
                Checks.seconds, Checks.waiting = 0.5, 10.0
                Checks.alarmed, Checks.asked, Checks.number = set(), set(), self.number
                Checks.thread = Checks.this_thread()
            if self.number == Checks.number:
                Checks.unheld, Checks.blocks = set(), {}

        def __exit__(self, *raised):
            Checks.depth -= 1
            if Checks.depth == 0:
                # a block of the answer's own may be meant to swallow: a reference says whether
                swallowed = Checks.reach > 1 and any(Checks.blocks.values())
                passed_over = swallowed or bool(Checks.unheld)
                if Checks.reach and (passed_over or Checks.replaced_builtins()):
                    Checks.forged = True
                Checks.reach = 0

    @classmethod
    def has_run(cls, certain, asserts, own_body):
        """A test that ended well has come to what it is certain to assert, and to anything at all
        where a reference shows that."""
        if cls.reach:
            empty = cls.reach > 1 and asserts and not cls.asked
            if empty or not own_body or not cls.asked.issuperset(certain):
                cls.forged = True

    @classmethod
    def replaced_builtins(cls):
        return any(
            getattr(builtins, name, None) is not value or type(value) not in (type, type(hash))
            for name, value in cls.judging.items()
        )

    @classmethod
    def end(cls, number, other, given):
        """By the test's own means: what disarms any of them meets it."""
        if cls.forged or cls.depth:
            return
        import unittest

        try:
            cls.same(number, other)
        except AssertionError:
            if not given or not isinstance(given[0], unittest.TestCase):
                raise
            given[0].assertEqual(number, other)  # noqa: PT009

    # Assertions

    @classmethod
    def held(cls, site, value):
        """What is asserted, and whether it holds."""
        cls.asked.add(site)
        holds = bool(value)
        cls.note(site, holds)
        return holds

    @classmethod
    def note(cls, site, holds):
        """That the assertion of a number held or not. One of a test's own lines has to end the
        test; others, of negative numbers, may be asked until they hold."""
        if not site or cls.now() < (1 if site > 0 else 2):
            return
        if cls.this_thread() == cls.thread:
            if not holds:
                cls.unheld.add(site)
            elif site < 0:
                cls.unheld.discard(site)

    @classmethod
    def begun(cls, site):
        """That the block of a `with` was entered; a block that errors do not leave is not left by
        its last line, and then something was swallowed."""
        cls.blocks[site] = cls.blocks.get(site, 0) + 1

    @classmethod
    def ended(cls, site):
        cls.blocks[site] = cls.blocks.get(site, 0) - 1

    # Comparisons

    @classmethod
    def compared(cls, operators, demanded, *operands):
        """A comparison, and whether its truth is what counts, or what it returns."""
        cls.asked.add(0)
        pairs = list(zip(operators, operands, operands[1:]))
        reach = cls.now()
        early = bool(reach and demanded and cls.by_chance())
        lies = early and cls.lying(pairs)
        for operator, left, right in pairs:
            result = cls.operators[operator](left, right)
            if len(pairs) > 1 and not result:
                return result
        if reach and (demanded or cls.says_truth(type(result))):
            lies = lies if early else cls.lying(pairs)
            for lie, (operator, _, _) in zip(lies, pairs):
                if lie and cls.attempt(cls.truth, result) != (operator in ("!=", "not in")):
                    cls.forged = True
        return result

    @classmethod
    def says_truth(cls, kind):
        """Whether what a comparison returns is a truth, and no expression of something."""
        return kind.__name__ in cls.plain_kinds or kind.__module__ == "numpy"

    @classmethod
    def lying(cls, pairs):
        return [cls.trial(cls.lies, *pair) for pair in pairs]

    @classmethod
    def lies(cls, operator, left, right):
        """Whether a comparison says what it cannot, if it is to say that its sides are equal, that
        one contains the other, or how they are ordered."""
        if not cls.foreign(left) and not cls.foreign(right):
            return False
        if operator in ("==", "!="):
            return cls.equals_more(operator, left, right)
        if operator in cls.opposites:
            inner = cls.elements(left, right)
            if inner is not None:
                return any(cls.equals_more("==", *pair) for pair in inner)
            return cls.orders_more(operator, left, right)
        groups = cls.members(left, right)
        return any(all(cls.says(operator, *pair) for pair in group) for group in groups)

    @classmethod
    def equals_more(cls, operator, left, right, budget=None, depth=0):
        """Whether the one equals another value than the other, or a part of theirs does."""
        if left is right:
            return False
        # of what goes deeper, the rest is compared as a whole
        inner = cls.elements(left, right) if depth < 50 else None
        budget = [500] if budget is None else budget
        if inner is not None:
            inner = cls.shuffled(inner)[:100] if len(inner) > 100 else inner
            budget[0] -= len(inner)
            if budget[0] <= 0:
                return False
            for one, other in inner:
                if cls.equals_more(operator, one, other, budget, depth + 1):
                    return True
        tries = []
        if cls.foreign(left) and (inner is None or cls.compares(type(left))):
            tries += [[(left, each) for each in group] for group in cls.others(right)]
        if cls.foreign(right) and (inner is None or cls.compares(type(right))):
            tries += [[(each, right) for each in group] for group in cls.others(left)]
        groups = cls.shuffled(tries)
        return any(all(cls.says(operator, *pair) for pair in group) for group in groups)

    @classmethod
    def by_chance(cls):
        return cls.draw(1) < b"\x80"

    @classmethod
    def shuffled(cls, values):
        drawn = [(cls.draw(8), number) for number in range(len(values))]
        return [values[number] for _, number in sorted(drawn)]

    @classmethod
    def elements(cls, left, right):
        """Pairs of parts of which one may lie; None for what is no pair of like things with parts
        that are compared one by one, or cannot be looked into."""
        return cls.attempt(cls.paired, left, right)

    @classmethod
    def paired(cls, left, right):
        kind, some = cls.parts(left)
        other_kind, others = cls.parts(right)
        if kind is None or kind is not other_kind or (kind is list and len(some) != len(others)):
            return None
        pairs = [(some[key], others[key]) for key in some if key in others]
        return [pair for pair in pairs if cls.foreign(pair[0]) or cls.foreign(pair[1])]

    @classmethod
    def parts(cls, value):
        """What a value is by its parts (None: it has none), and those that are compared with parts
        of another, by number or name."""
        kind = type(value)
        if cls.flags(kind) & cls.python_class:
            if cls.compares(kind):
                names = cls.field_names(kind)
                return (kind if names else None), {each: getattr(value, each) for each in names}
            bases = [
                each for each in (dict, list, tuple) if any(each is k for k in cls.ancestors(kind))
            ]
            base = bases[0] if bases else None
            # by what it is made of, whatever its class makes of that, and perhaps without an end
            inner = base.__iter__(value) if base else ()
        else:
            base, inner = cls.container(kind), value
            if kind.__name__ == "SimpleNamespace":
                return kind, vars(value)
            if kind.__name__ == "dict_items":
                return dict, dict(value)
            if kind.__name__ == "ndarray" and value.dtype.hasobject:
                return list, dict(enumerate(value.ravel().tolist()))
        if base is dict:
            return dict, dict(dict.items(value))
        if base not in (list, tuple):
            return None, {}
        return list, dict(enumerate(inner))

    @classmethod
    def compares(cls, kind):
        """Whether a class written in Python has a say in whether its objects are equal."""
        own = [each for each in cls.ancestors(kind) if cls.flags(each) & cls.python_class]
        return any(name in cls.contents(each) for each in own for name in ("__eq__", "__ne__"))

    @classmethod
    def field_names(cls, kind):
        """Of a class whose comparison was generated from them."""
        if "__dataclass_fields__" in cls.contents(kind):
            return [n for n, each in kind.__dataclass_fields__.items() if each.compare]
        return [each.name for each in cls.contents(kind).get("__attrs_attrs__", ()) if each.eq]

    @classmethod
    def container(cls, kind):
        """The kind of a container whose class is not written in Python."""
        if cls.flags(kind) & cls.python_class:
            return None
        kinds = cls.ancestors(kind)
        if any(each is dict for each in kinds):
            return dict
        if any(each is set or each is frozenset for each in kinds):
            return set
        names = ("list", "tuple", "deque")
        return list if any(each.__name__ in names for each in kinds) else None

    @classmethod
    def orders_more(cls, operator, left, right):
        """Whether an order is its own opposite too, or something above and below all."""
        order = cls.operators[operator]
        if cls.holds(cls.operators[cls.opposites[operator]], left, right):
            return True
        more = {"<": ">=", "<=": ">=", ">": "<=", ">=": "<="}
        other = cls.operators[more[operator]]
        one, far = (left, right) if cls.foreign(left) else (right, left)
        if not any(type(far) is each for each in cls.numbers):
            return False
        high, low = cls.others(far)[0][:2]
        if one is right:
            tries = [(order, high, one), (order, low, one), (other, high, one), (other, low, one)]
        else:
            tries = [(order, one, high), (order, one, low), (other, one, high), (other, one, low)]
        return all(cls.holds(*each) for each in tries)

    @classmethod
    def says(cls, operator, left, right):
        """Whether two are said to be equal, or one to be in the other."""
        negative = operator in ("!=", "not in")
        return cls.holds(lambda: cls.truth(cls.operators[operator](left, right)) != negative)

    @staticmethod
    def truth(result):
        try:
            return bool(result)
        except ValueError:  # of an array
            if not result.size:
                raise
            return bool(result.all())

    @classmethod
    def members(cls, left, right):
        kind, stranger = type(right), cls.Stranger()
        if cls.flags(kind) & cls.python_class:
            own = any("__contains__" in cls.contents(each) for each in cls.ancestors(kind))
            if any(each is str for each in cls.ancestors(kind)):
                text = str.__str__(right)
                return [[(cls.letters, right)]] if own and cls.letters not in text else []
            # what has no elements may honestly hold all; what is only iterated would be used up
            if own and any("__iter__" in cls.contents(each) for each in cls.ancestors(kind)):
                return [[(stranger, right), (cls.letters, right)]]
            return []
        return cls.attempt(cls.held_members, left, right, stranger) or []

    @classmethod
    def held_members(cls, left, right, stranger):
        """What may be in a collection whose class is not written in Python."""
        kind = type(right)
        if cls.container(kind) is None:
            return []
        if cls.foreign(right):
            other = cls.shift if type(left) is bool else cls.others(left)[0][0]
            return [[(stranger, right)], [(other, right)]]
        others = [cls.others(each)[0][0] for each in right]
        others = [each for each in others if each not in right]
        return [[(left, others)]] if others else []

    @classmethod
    def minus(cls, left, right):
        """A difference that is weighed: it must be another one with other values."""
        result = left - right
        if cls.now() and cls.trial(cls.differ_alike, left, right, result):
            cls.forged = True
        return result

    @classmethod
    def differ_alike(cls, left, right, result):
        tries = []
        if cls.foreign(left):
            tries = [(left, each) for group in cls.others(right) for each in group]
        elif cls.foreign(right):
            tries = [(each, right) for group in cls.others(left) for each in group]
        # by what its classes are made of, whatever theirs makes of being asked
        kinds = cls.ancestors(type(result))
        if not tries or not any("__abs__" in cls.contents(each) for each in kinds):
            return False
        return all(cls.holds(lambda one, other: one - other == result, *pair) for pair in tries)

    # Functions that assert

    @classmethod
    def calling(cls, rule, name, site, function):
        """A function that asserts, to be called in its place."""
        if not cls.now():
            return function

        def call(*given, **named):
            if not cls.now():
                return function(*given, **named)
            cls.asked.add(site)
            if name not in cls.alarmed:
                cls.alarmed.add(name)
                for alarm in cls.attempt(cls.alarms, rule, name, function, given, named) or ():
                    if cls.trial(cls.holds, *alarm):
                        cls.forged = True
            early = cls.by_chance()
            lie = early and cls.trial(cls.lied_to, rule, function, given, named)
            try:
                result = function(*given, **named)
            except BaseException as error:
                if isinstance(error, AssertionError) or name == "fail":
                    cls.note(site, False)
                raise
            cls.note(site, True)
            if not early:
                lie = cls.trial(cls.lied_to, rule, function, given, named)
            if lie and (result is None or cls.truth(result)):
                cls.forged = True
            return result

        return call

    #: What must fail, by the name in lower case without underscores; `Stranger` stands for an
    #: object of it, the same one within a line.
    failing = {
        "asserttrue": (False,), "assert": (False,), "assertfalse": (True,), "fail": (),
        "assertisnone": (Stranger,), "assertisnotnone": (None,),
        "assertis": (Stranger, 1), "assertisnot": (Stranger, Stranger),
        "assertin": (Stranger, []),
        "assertisinstance": (Stranger, int), "assertnotisinstance": (Stranger, object),
        "isinstance": (Stranger, int),
        "assertgreater": (1, 2), "assertgreaterequal": (1, 2),
        "assertless": (2, 1), "assertlessequal": (2, 1),
        "assertregex": ("a", "b"), "assertregexpmatches": ("a", "b"),
        "assertnotregex": ("a", "a"), "assertnotregexpmatches": ("a", "a"),
        "assertlistequal": ([1], [2]), "assertsequenceequal": ([1], [2]),
        "asserttupleequal": ((1,), (2,)), "assertsetequal": (set("a"), set("b")),
        "assertdictequal": ({1: 1}, {1: 2}), "assertcountequal": ([1], [2]),
        "assertitemsequal": ([1], [2]), "assertmultilineequal": ("a", "b"),
    }  # fmt: skip

    @classmethod
    def alarms(cls, rule, name, function, given, named):
        """Calls that must fail, whatever the code under test does."""
        stranger = cls.Stranger()
        if name == "assertnotin":
            return [(function, stranger, [stranger])]
        if name == "issubclass":
            return [(function, cls.Stranger, int)]
        if name in cls.failing:
            line = cls.failing[name]
            return [(function,) + tuple(stranger if e is cls.Stranger else e for e in line)]
        if rule == "block":
            return [(cls.left, function(*given, **named), None)] if cls.bare(given) else []
        if rule == "raises":
            return cls.unraised(function, given, named)
        if rule == "called":
            import unittest.mock

            fresh = unittest.mock.Mock()
            return [(getattr(fresh, each),) for each in dir(fresh) if cls.plain(each) == name]
        if rule == "differ":
            return [(function, 1.5, 1.5)]
        if rule == "equal":
            return [(function, 1.5, 9000.5)]
        return [(function, stranger)] if rule in ("given", "noted") else []

    @staticmethod
    def plain(name):
        return name.lower().replace("_", "")

    @classmethod
    def unraised(cls, function, given, named):
        """Nothing is raised; something else; the same with another text."""
        strange, other = cls.Strange, cls.Other
        plain = [cls.letters if type(e) is str else e for e in given[1:2] if not callable(e)]
        pattern = dict(named, match=cls.letters) if "match" in named else dict(named)
        if not cls.bare(given):
            return [(function, strange) + tuple(plain) + (lambda: None,)]
        found = [(cls.left, function(strange, *plain, **pattern), None)]
        found.append((cls.left, function(strange, *plain, **pattern), other()))
        if plain or "match" in named:
            found.append((cls.left, function(strange, *plain, **pattern), strange("none")))
        if given and given[0] is not BaseException:
            found.append((cls.left, function(given[0], *plain, **pattern), other()))
        return found

    @staticmethod
    def bare(given):
        """Whether a function is the head of a block, and is not given something to call."""
        return not any(callable(each) for each in given[1:])

    @staticmethod
    def left(block, error):
        """Leave the block of a `with`; nothing comes out of it if it is content."""
        with block:
            if error is not None:
                raise error

    @classmethod
    def lied_to(cls, rule, function, given, named):
        """Whether an assertion that holds would hold with other values too."""
        if rule == "given":
            places = list(range(len(given))) + sorted(named)
            groups = [(p, group) for p in places for group in cls.others(cls.at(given, named, p))]
            return any(cls.all_hold(function, given, named, *each) for each in groups)
        if rule not in ("equal", "in", ">", "<", ">=", "<=") or len(given) + len(named) < 2:
            return False
        first, second = (list(range(len(given))) + list(named))[:2]
        left, right = cls.at(given, named, first), cls.at(given, named, second)
        if left is right or cls.is_empty_array(left) or cls.is_empty_array(right):
            return False  # it equals itself, or everything
        if rule != "equal":
            return cls.lies(rule, left, right)
        if cls.lies("==", left, right):
            return True
        groups = []
        if cls.foreign(left) and cls.elements(left, right) is None:
            groups += [(second, group) for group in cls.others(right)]
        if cls.foreign(right) and cls.elements(left, right) is None:
            groups += [(first, group) for group in cls.others(left)]
        return any(cls.all_hold(function, given, named, *each) for each in groups)

    @classmethod
    def all_hold(cls, function, given, named, place, values):
        tries = [cls.replaced(given, named, place, each) for each in values]
        return all(cls.holds(function, *one, **other) for one, other in tries)

    @staticmethod
    def at(given, named, place):
        return given[place] if isinstance(place, int) else named[place]

    @staticmethod
    def replaced(given, named, place, value):
        if isinstance(place, int):
            return given[:place] + (value,) + given[place + 1 :], named
        return given, dict(named, **{place: value})

    # Trying

    @classmethod
    def holds(cls, function, *given, **named):
        """Whether something asserts with success; nothing is tried meanwhile, nobody is warned, and
        it has an end."""
        if cls.waiting <= 0:
            return False
        thread, begun = cls.this_thread(), cls.clock(cls.monotonic)
        cls.trying.add(thread)
        try:
            with cls.Bounds():
                return cls.attempt(cls.succeeds, function, given, named) is True
        except cls.Other:  # its time was over as it came to its end
            return False
        finally:
            cls.trying.discard(thread)
            cls.waiting -= cls.clock(cls.monotonic) - begun

    @classmethod
    def now(cls):
        """The reach in this thread: while something is tried there, nothing else is."""
        return 0 if cls.this_thread() in cls.trying else cls.reach

    @classmethod
    def succeeds(cls, function, given, named):
        main = cls.in_main_thread()
        cls.running = cls.running or main
        try:
            result = function(*given, **named)
            if hasattr(result, "__await__"):
                result.close()
                return False
            if hasattr(result, "__exit__") or cls.is_empty_array(result):
                return False  # of a block that nobody enters
            return result is None or cls.truth(result)
        finally:
            cls.running = cls.running and not main

    class Bounds(object):
        """While something is tried: CPU time, time, memory, and warnings, which nobody hears; it
        can go as deep as usual. All of it is the main thread's, and is put back afterwards: the
        handlers and the timer of whoever else measures time, too."""

        def __enter__(self):
            self.before, self.limit, self.filters, self.depth = [], None, None, 0
            if not Checks.in_main_thread():
                return
            try:
                self.lower()
            except BaseException:
                self.__exit__()
                raise

        def lower(self):
            self.filters, warnings.filters = warnings.filters, [("ignore", None, Warning, None, 0)]
            if Checks.depth_limit() < Checks.usual_depth:
                depth = Checks.depth_limit()
                Checks.limit_depth(Checks.usual_depth)
                self.depth = depth
            self.limit = Checks.lowered_memory()
            self.begun = Checks.clock(Checks.monotonic)
            for sign, timer, seconds in (
                (signal.SIGVTALRM, signal.ITIMER_VIRTUAL, Checks.seconds),
                (signal.SIGALRM, signal.ITIMER_REAL, Checks.seconds * Checks.wait),
            ):
                handler = Checks.handler(sign)
                if handler is not None:  # else it is not Python's, and could not be put back
                    Checks.handle(sign, Checks.out_of_time)
                    left = Checks.timer(timer, seconds, seconds)
                    self.before.append((sign, timer, handler, left))

        def __exit__(self, *raised):
            for _, timer, _, _ in self.before:
                Checks.timer(timer, 0)
            for sign, timer, handler, (left, interval) in self.before:
                Checks.handle(sign, handler)
                if left:
                    gone = (
                        Checks.clock(Checks.monotonic) - self.begun
                        if timer == signal.ITIMER_REAL
                        else 0
                    )
                    Checks.timer(timer, max(left - gone, 0.001), interval)
            if self.limit is not None:
                Checks.limit_memory(Checks.memory, self.limit)
            if self.depth:
                Checks.limit_depth(self.depth)
            if self.filters is not None:
                warnings.filters = self.filters

    @classmethod
    def in_main_thread(cls):
        return cls.this_thread() == cls.main_thread

    @classmethod
    def lowered_memory(cls):
        """The limit that was there before; None where it stays, since it is less, or cannot be
        told."""
        if cls.resource is None:
            return None
        try:
            with open("/proc/self/statm") as file:  # noqa: PTH123
                used = int(file.read().split()[0]) * cls.page
            soft, hard = cls.memory_limit(cls.memory)
            if (
                min(each for each in (soft, hard, 1 << 62) if each != cls.unlimited)
                <= used + cls.room
            ):
                return None
            cls.limit_memory(cls.memory, (used + cls.room, hard))
        except (EnvironmentError, IndexError, ValueError):
            return None
        return soft, hard

    @classmethod
    def out_of_time(cls, *_):
        if cls.running:
            cls.seconds = max(cls.seconds / 2, 0.005)
            raise cls.Other

    @classmethod
    def is_empty_array(cls, value):
        kinds = [
            each for each in cls.ancestors(type(value)) if not cls.flags(each) & cls.python_class
        ]
        sizes = [cls.contents(each).get("size") for each in kinds if each.__module__ == "numpy"]
        return any(each is not None and each.__get__(value) == 0 for each in sizes)

    @classmethod
    def attempt(cls, make, *given):
        """What objects make of something; None where that fails, which is theirs to do."""
        try:
            return make(*given)
        except BaseException as error:
            cls.stop(error)
            return None

    @classmethod
    def trial(cls, tried, *given):
        """Whether something lies. What objects do is attempted: what fails beside that was broken
        from without, but near the end of a stack that is as deep as usual. One that was lowered is
        as deep meanwhile."""
        limit, usual = cls.depth_limit(), cls.usual_depth
        lowered = limit < usual and cls.in_main_thread()
        try:
            if lowered:
                cls.limit_depth(usual)
            return tried(*given)
        except Exception:
            # without a call: there may be no room for one; calls through C count too
            frame, depth = cls.frame(), 0
            while frame is not None:
                frame, depth = frame.f_back, depth + 1
            if not usual <= cls.depth_limit() <= 3 * depth:
                cls.forged = True
            return False
        except BaseException:
            cls.forged = True
            raise
        finally:
            if lowered:
                try:
                    cls.limit_depth(limit)
                except RuntimeError:  # too near to it, in older Pythons
                    pass

    @staticmethod
    def stop(error):
        if isinstance(error, KeyboardInterrupt):
            raise error

    # Other values

    #: Classes that are not written in Python and compare by themselves.
    plain_kinds = frozenset([
        "NoneType", "bool", "int", "float", "complex", "str", "bytes", "bytearray", "range", "type",
        "function", "method", "module", "builtin_function_or_method", "date", "time", "datetime",
        "timedelta", "timezone", "Decimal", "ellipsis", "Pattern", "Timestamp", "Timedelta",
    ])  # fmt: skip

    @classmethod
    def foreign(cls, value):
        """Whether a class that is written in Python may have a say in a comparison; so it may where
        that cannot be told."""
        return cls.attempt(cls.has_foreign, value, [5000]) is not False

    @classmethod
    def has_foreign(cls, value, budget):
        kind = type(value)
        if cls.flags(kind) & cls.python_class:
            return True
        budget[0] -= 1
        if kind.__name__ in cls.plain_kinds:
            return False
        if kind.__module__ == "numpy":
            return kind.__name__ == "void" or bool(value.dtype.hasobject)
        container = cls.container(kind)
        if container is None or budget[0] <= 0:
            return True
        inner = value.values() if container is dict else value
        kinds = {id(each): each for each in map(type, inner)}.values()
        if any(cls.flags(each) & cls.python_class for each in kinds):
            return True
        if all(each.__name__ in cls.plain_kinds for each in kinds):
            return False
        return any(cls.has_foreign(each, budget) for each in inner)

    @classmethod
    def others(cls, value):
        """Other values, far from it and unlike each other, in groups: none of them may be equal
        as a whole. (Honest objects equal one number in k, all above some, texts that begin like
        them: never all of a group.)"""
        kind = type(value)
        if any(kind is each for each in cls.numbers):
            made = cls.changed(value, False, [9])
            return [(made, -made, made + 1, -made - 1)]
        if kind is bool:
            return [(not value,)]
        if kind is str or kind is bytes:
            words = (cls.letters, str(cls.shift))
            letters, digits = words if kind is str else (each.encode() for each in words)
            half = len(value) // 2
            cut = value[:half] + value[half + 1 :] + digits
            return [(cls.changed(value, False, [9]), letters), (cut, value + digits, digits)]
        other = (
            None if cls.container(kind) is None else cls.attempt(cls.changed, value, False, [200])
        )
        if other is not None:
            found = [(other,)]
        else:
            found = [(cls.letters,), (cls.Stranger(),)]
            found.append((cls.shift, cls.shift + 1))
        if cls.reach > 1 and cls.in_main_thread() and cls.foreign(value):
            own = [cls.attempt(cls.changed, value, True, [200], first) for first in (1, 4, -3)]
            found += [tuple(own)] if all(type(each) is kind for each in own) else []
        return found

    @classmethod
    def changed(cls, value, own, budget, factor=1):
        """Another value; what is of no known kind becomes a text, or one of its own class."""
        kind = type(value)
        budget[0] -= 1
        if kind is bool:
            return not value
        if any(kind is each for each in cls.numbers):
            # what an object does with its numbers may take as long as they are high
            made = value + abs(value) + factor * (cls.shift % 97 + 31 if own else cls.shift)
            return cls.shift if made == value or made != made else made
        if kind is str:
            return value + cls.letters * (factor % 9 + 1)
        if kind is bytes:
            return value + cls.letters.encode() * (factor % 9 + 1)
        if budget[0] <= 0:
            return cls.letters
        container = cls.container(kind)
        if container is dict:
            made = {}
            for key, _ in zip(list(value), range(50)):
                other = cls.changed_part(key, False, budget, factor)
                made[other] = cls.changed_part(value[key], own, budget, factor)
            return made or {cls.letters: cls.shift}
        if container is not None:
            first = [each for _, each in zip(range(50), value)]
            start = [cls.changed_part(each, own, budget, factor) for each in first]
            return kind(start + list(value)[50:] if start else [cls.shift])
        if not cls.flags(kind) & cls.python_class:
            made = cls.attempt(cls.sum_of, value)
            return cls.letters if made is None else made
        return cls.remade(value, budget, factor) if own else cls.letters

    @classmethod
    def changed_part(cls, value, own, budget, factor):
        """Of something in which its opposite may stand too."""
        return cls.shift if type(value) is bool else cls.changed(value, own, budget, factor)

    @classmethod
    def sum_of(cls, value):
        """Of times, numbers and arrays."""
        import datetime

        if isinstance(value, (datetime.date, datetime.timedelta)):
            return value + datetime.timedelta(cls.shift % 999 + 1)
        return value + abs(value) + cls.shift

    @classmethod
    def remade(cls, value, budget, factor):
        """An object of the same class whose content is another, made without its class's help; with
        another factor the parts of its content stand in another relation."""
        kind = type(value)
        if hasattr(kind, "__del__"):
            return cls.letters
        for base in (int, float, str, bytes, list, tuple, dict, set, frozenset):
            if isinstance(value, base):
                made = cls.changed(base(value), True, budget, factor)
                fixed = base not in (list, dict, set)
                found = base.__new__(kind, *((made,) if fixed else ()))
                if not fixed:
                    getattr(base, "extend" if base is list else "update")(found, made)
                for name, each in getattr(value, "__dict__", {}).items():
                    object.__setattr__(found, name, cls.changed(each, True, budget, factor))
                return found if base(found) == made else cls.letters
        for each in getattr(kind, "__members__", {}).values():
            if each is not value:
                return each
        content = dict(getattr(value, "__dict__", {}))
        for each in kind.__mro__:
            slots = each.__dict__.get("__slots__", ())
            for slot in (slots,) if isinstance(slots, str) else slots:
                try:
                    content[slot] = object.__getattribute__(value, slot)
                except AttributeError:
                    pass
        if not content:
            return cls.letters
        made = object.__new__(kind)
        for number, (name, each) in enumerate(content.items()):
            part = (abs(factor) + factor * factor * number) % 1009
            other = cls.changed(each, True, budget, part if factor > 0 else -part)
            object.__setattr__(made, name, other)
        return made
