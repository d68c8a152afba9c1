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
were there before the test file's first import.
"""

import builtins
import functools
import inspect
import random
import resource
import signal
import threading
import time
import warnings


class Checks(object):
    letters, shift, chance = "letters", 123457, random.Random()
    reach, depth, forged, alarmed, unheld, blocks = 0, 0, False, set(), set(), {}
    asked = set()  # the assertions that the test has come to; 0 for whatever else was compared
    same, thread, number = staticmethod(lambda number, other: None), 0, 0
    # bound before code under test is loaded, as far as nothing else loads it
    this_thread, main_thread = staticmethod(threading.get_ident), threading.main_thread().ident
    handle, timer = staticmethod(signal.signal), staticmethod(signal.setitimer)
    clock = staticmethod(getattr(time, "monotonic", time.time))
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
    flags = staticmethod(type.__dict__["__flags__"].__get__)
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
            if not inspect.isfunction(function):
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

            made = run_async if inspect.iscoroutinefunction(function) else run
            made.__code__ = cls.placed(made.__code__, function.__code__)
            return functools.wraps(function)(made)

        return decorate

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
        if not site or cls.reach < (1 if site > 0 else 2):
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
        early = bool(cls.reach and demanded and cls.chance.random() < 0.5)
        lies = early and cls.lying(pairs)
        for operator, left, right in pairs:
            result = cls.operators[operator](left, right)
            if len(pairs) > 1 and not result:
                return result
        if cls.reach and (demanded or cls.says_truth(type(result))):
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
        return [cls.attempt(cls.lies, *pair) for pair in pairs]

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
    def equals_more(cls, operator, left, right, budget=None):
        """Whether the one equals another value than the other, or a part of theirs does."""
        if left is right:
            return False
        inner, budget = cls.elements(left, right), [500] if budget is None else budget
        if inner is not None:
            inner = cls.chance.sample(inner, 100) if len(inner) > 100 else inner
            budget[0] -= len(inner)
            if budget[0] <= 0:
                return False
            if any(cls.equals_more(operator, one, other, budget) for one, other in inner):
                return True
        tries = []
        if cls.foreign(left) and (inner is None or cls.compares(type(left))):
            tries += [[(left, each) for each in group] for group in cls.others(right)]
        if cls.foreign(right) and (inner is None or cls.compares(type(right))):
            tries += [[(each, right) for each in group] for group in cls.others(left)]
        cls.chance.shuffle(tries)
        return any(all(cls.says(operator, *pair) for pair in group) for group in tries)

    @classmethod
    def elements(cls, left, right):
        """Pairs of parts of which one may lie; None for what is no pair of like things with parts
        that are compared one by one."""
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
            bases = [each for each in (dict, list, tuple) if any(each is k for k in kind.__mro__)]
            base = bases[0] if bases else None
        else:
            base = cls.container(kind)
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
        return list, dict(enumerate(value if base is list else base.__iter__(value)))

    @classmethod
    def compares(cls, kind):
        """Whether a class written in Python has a say in whether its objects are equal."""
        own = [each for each in kind.__mro__ if cls.flags(each) & cls.python_class]
        return any(name in each.__dict__ for each in own for name in ("__eq__", "__ne__"))

    @staticmethod
    def field_names(kind):
        """Of a class whose comparison was generated from them."""
        if "__dataclass_fields__" in kind.__dict__:
            return [n for n, each in kind.__dataclass_fields__.items() if each.compare]
        return [each.name for each in kind.__dict__.get("__attrs_attrs__", ()) if each.eq]

    @classmethod
    def container(cls, kind):
        """The kind of a container whose class is not written in Python."""
        if cls.flags(kind) & cls.python_class:
            return None
        if any(each is dict for each in kind.__mro__):
            return dict
        if any(each is set or each is frozenset for each in kind.__mro__):
            return set
        names = ("list", "tuple", "deque")
        return list if any(each.__name__ in names for each in kind.__mro__) else None

    @classmethod
    def orders_more(cls, operator, left, right):
        """Whether an order is its own opposite too, or something above and below all."""
        order = cls.operators[operator]
        if cls.holds(cls.operators[cls.opposites[operator]], left, right):
            return True
        more = {"<": ">=", "<=": ">=", ">": "<=", ">=": "<="}
        other = cls.operators[more[operator]]
        one, far = (left, right) if cls.foreign(left) else (right, left)
        if type(far) not in cls.numbers:
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
            own = any("__contains__" in each.__dict__ for each in kind.__mro__)
            if isinstance(right, str):
                return [[(cls.letters, right)]] if own and cls.letters not in str(right) else []
            # what has no elements may honestly hold all; what is only iterated would be used up
            if own and any("__iter__" in each.__dict__ for each in kind.__mro__):
                return [[(stranger, right), (cls.letters, right)]]
            return []
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
        if cls.reach and cls.attempt(cls.differ_alike, left, right, result):
            cls.forged = True
        return result

    @classmethod
    def differ_alike(cls, left, right, result):
        tries = []
        if cls.foreign(left):
            tries = [(left, each) for group in cls.others(right) for each in group]
        elif cls.foreign(right):
            tries = [(each, right) for group in cls.others(left) for each in group]
        if not tries or not hasattr(type(result), "__abs__"):
            return False
        return all(cls.holds(lambda one, other: one - other == result, *pair) for pair in tries)

    # Functions that assert

    @classmethod
    def calling(cls, rule, name, site, function):
        """A function that asserts, to be called in its place."""
        if not cls.reach:
            return function

        def call(*given, **named):
            if not cls.reach:
                return function(*given, **named)
            cls.asked.add(site)
            if name not in cls.alarmed:
                cls.alarmed.add(name)
                for alarm in cls.attempt(cls.alarms, rule, name, function, given, named) or ():
                    cls.forged |= cls.holds(*alarm)
            early = cls.chance.random() < 0.5
            lie = early and cls.attempt(cls.lied_to, rule, function, given, named)
            try:
                result = function(*given, **named)
            except BaseException as error:
                if isinstance(error, AssertionError) or name == "fail":
                    cls.note(site, False)
                raise
            cls.note(site, True)
            if not early:
                lie = cls.attempt(cls.lied_to, rule, function, given, named)
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
        reach, cls.reach = cls.reach, 0
        filters, warnings.filters = warnings.filters, [("ignore", None, Warning, None, 0)]
        begun = cls.clock()
        try:
            with cls.Bounds():
                result = function(*given, **named)
            if hasattr(result, "__await__"):
                result.close()
                return False
            if hasattr(result, "__exit__") or cls.is_empty_array(result):
                return False  # of a block that nobody enters
            return result is None or cls.truth(result)
        except BaseException as error:
            cls.stop(error)
            return False
        finally:
            warnings.filters, cls.reach = filters, reach
            cls.waiting -= cls.clock() - begun

    class Bounds(object):
        """While something is tried: CPU time, time and memory. The handlers and the timer of
        whoever else measures time come back afterwards."""

        def __enter__(self):
            self.before, self.limit = [], None
            if not Checks.in_main_thread():
                return
            self.limit = Checks.lowered_memory()
            self.begun = Checks.clock()
            for sign, timer, seconds in (
                (signal.SIGVTALRM, signal.ITIMER_VIRTUAL, Checks.seconds),
                (signal.SIGALRM, signal.ITIMER_REAL, Checks.seconds * Checks.wait),
            ):
                handler = Checks.handle(sign, Checks.out_of_time)
                self.before.append((sign, timer, handler, Checks.timer(timer, seconds)))

        def __exit__(self, *raised):
            for _, timer, _, _ in self.before:
                Checks.timer(timer, 0)
            for sign, timer, handler, (left, interval) in self.before:
                Checks.handle(sign, handler)
                if left:
                    gone = Checks.clock() - self.begun if timer == signal.ITIMER_REAL else 0
                    Checks.timer(timer, max(left - gone, 0.001), interval)
            if self.limit is not None:
                resource.setrlimit(resource.RLIMIT_AS, self.limit)

    @classmethod
    def in_main_thread(cls):
        return cls.this_thread() == cls.main_thread

    @classmethod
    def lowered_memory(cls):
        """The limit that was there before; None where it stays, since it is less, or cannot be
        told."""
        try:
            with open("/proc/self/statm") as file:  # noqa: PTH123
                used = int(file.read().split()[0]) * resource.getpagesize()
            soft, hard = resource.getrlimit(resource.RLIMIT_AS)
            unlimited = resource.RLIM_INFINITY
            if min(each for each in (soft, hard, 1 << 62) if each != unlimited) <= used + cls.room:
                return None
            resource.setrlimit(resource.RLIMIT_AS, (used + cls.room, hard))
        except (EnvironmentError, IndexError, ValueError):
            return None
        return soft, hard

    @classmethod
    def out_of_time(cls, *_):
        cls.seconds = max(cls.seconds / 2, 0.005)
        raise cls.Other

    @staticmethod
    def is_empty_array(value):
        return type(value).__module__ == "numpy" and getattr(value, "size", 1) == 0

    @classmethod
    def attempt(cls, make, *given):
        reach = cls.reach
        try:
            return make(*given)
        except BaseException as error:
            cls.stop(error)
            return None
        finally:
            cls.reach = reach

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
    def foreign(cls, value, budget=None):
        """Whether a class that is written in Python may have a say in a comparison."""
        kind = type(value)
        if cls.flags(kind) & cls.python_class:
            return True
        budget = [5000] if budget is None else budget
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
        return any(cls.foreign(each, budget) for each in inner)

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
        if cls.container(kind) is not None:
            found = [(cls.changed(value, False, [200]),)]
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
