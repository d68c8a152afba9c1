"""What a rewritten Python test compares and asserts by; its class is put at the test file's head.

Whatever it does it does in the true run and in the twin alike, so that nothing of it tells them
apart; what it has found counts at the end of each test, which fails in a twin unless something was
forged.

Objects whose class is written in Python can lie. Where one takes part in a comparison it is first
compared with other values, far from the true one, and none of these may be equal too. Functions
that assert are first called with what must fail. Honest code never meets either, whatever its
values are.

How far this goes is said at each test: its reach. With 1 other values are plain ones and strangers,
with 2 also objects of the same class with another content; with 0 nothing is tried.

It runs under every Python that a repository needs, beside whatever its test file imports.
"""


class Checks(object):
    letters, shift = "letters", 123457
    reach, forged, alarmed = 0, False, set()
    flags = staticmethod(type.__dict__["__flags__"].__get__)
    python_class = 1 << 9
    numbers, containers = (int, float, complex), (list, tuple, set, frozenset, dict)
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

    # Tests

    @classmethod
    def test(cls, number, other, reach, asserting):
        """A test whose end holds in a true run, where both numbers are the same."""
        import functools
        import inspect

        def decorate(function):
            def run(*given, **named):
                with cls.Watched(reach):
                    result = function(*given, **named)
                cls.end(number, other, given[0].assertEqual if asserting else None)
                return result

            async def run_async(*given, **named):
                with cls.Watched(reach):
                    result = await function(*given, **named)
                cls.end(number, other, given[0].assertEqual if asserting else None)
                return result

            made = run_async if inspect.iscoroutinefunction(function) else run
            return functools.wraps(function)(made)

        return decorate

    @classmethod
    def end(cls, number, other, equal):
        """By the test's own means: what disarms any of them meets it."""
        if not cls.forged:
            try:
                assert number == other
            except AssertionError:
                if equal is None:
                    raise
                equal(number, other)

    # Comparisons

    @classmethod
    def compared(cls, operators, *operands):
        pairs = list(zip(operators, operands, operands[1:]))
        held = [cls.reach and cls.attempt(cls.lies, *pair) for pair in pairs]
        for operator, left, right in pairs:
            result = cls.operators[operator](left, right)
            if len(pairs) > 1 and not result:
                return result
        for lie, (operator, _, _) in zip(held, pairs):
            if lie and cls.truth(result) != (operator in ("!=", "not in")):
                cls.forged = True
        return result

    @classmethod
    def lies(cls, operator, left, right):
        """Whether a comparison says what it cannot, if it is to say that its sides are equal, that
        one contains the other, or how they are ordered."""
        lying, doubtful = cls.foreign(left), cls.foreign(right)
        if not lying and not doubtful:
            return False
        if operator in cls.opposites:
            return cls.holds(cls.operators[cls.opposites[operator]], left, right)
        tries = []
        if operator in ("==", "!="):
            tries += [(left, each) for each in cls.others(right)] if lying else []
            tries += [(each, right) for each in cls.others(left)] if doubtful else []
        else:
            tries = cls.members(left, right)
        negative = operator in ("!=", "not in")
        return any(cls.says(operator, negative, *each) for each in tries)

    @classmethod
    def says(cls, operator, negative, left, right):
        return cls.holds(lambda: cls.truth(cls.operators[operator](left, right)) != negative)

    @staticmethod
    def truth(result):
        try:
            return bool(result)
        except ValueError:  # of an array
            return bool(result.all())

    @classmethod
    def members(cls, left, right):
        if cls.foreign(right):
            return [(cls.Stranger(), right), (cls.letters, right)]
        if any(type(right) is each for each in cls.containers):
            return [(left, [each for one in right for each in cls.others(one)[:1]])]
        return []

    @classmethod
    def minus(cls, left, right):
        """A difference that is weighed: it must be another one with other values."""
        result = left - right
        if cls.reach and (cls.foreign(left) or cls.foreign(right)):
            one, other = cls.others(left)[0], cls.others(right)[0]
            cls.forged |= cls.holds(lambda: left - other == result)
            cls.forged |= cls.holds(lambda: one - right == result)
        return result

    # Functions that assert

    @classmethod
    def calling(cls, rule, name, function):
        """A function that asserts, to be called in its place."""
        if not cls.reach:
            return function

        def call(*given, **named):
            if not cls.reach:
                return function(*given, **named)
            if name not in cls.alarmed:
                cls.alarmed.add(name)
                for alarm in cls.attempt(cls.alarms, rule, name, function, given, named) or ():
                    cls.forged |= cls.holds(*alarm)
            tries = cls.attempt(cls.tries, rule, given, named) or ()
            held = [cls.holds(function, *other, **more) for other, more in tries]
            result = function(*given, **named)
            if any(held) and (result is None or cls.truth(result)):
                cls.forged = True
            return result

        return call

    #: What must fail, by the name in lower case without underscores; an empty class stands for a
    #: stranger, the same one within a line.
    failing = {
        "asserttrue": (False,), "assert": (False,), "assertfalse": (True,), "fail": (),
        "assertisnone": (Stranger,), "assertisnotnone": (None,),
        "assertis": (Stranger, 1), "assertisnot": (Stranger, Stranger),
        "assertin": (Stranger, []), "assertnotin": (Stranger, [1, 2, 1]),
        "assertisinstance": (Stranger, int), "assertnotisinstance": (Stranger, object),
        "isinstance": (Stranger, int), "issubclass": (Stranger, int),
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
        count = max(len(given), 1)
        return [(function,) + tuple(cls.Stranger() for _ in range(count))]

    @staticmethod
    def plain(name):
        return name.lower().replace("_", "")

    @classmethod
    def unraised(cls, function, given, named):
        """Nothing is raised; something else; the same with another text."""
        strange = type(cls.letters, (Exception,), {})
        other = type(cls.letters, (type(cls.letters, (BaseException,), {}),), {})
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
    def tries(cls, rule, given, named):
        """The values with which an assertion that holds must hold no longer."""
        if rule == "given":
            found = []
            for place in list(range(len(given))) + sorted(named):
                for each in cls.others(cls.at(given, named, place)):
                    found.append(cls.replaced(given, named, place, each))
            return found
        if rule not in ("equal", "member", "order", "second") or len(given) + len(named) < 2:
            return []
        first, second = (list(range(len(given))) + list(named))[:2]
        left, right = cls.at(given, named, first), cls.at(given, named, second)
        lying, doubtful, pairs = cls.foreign(left), cls.foreign(right), []
        if rule == "member" and (lying or doubtful):
            pairs = cls.members(left, right)
        if rule == "order" and (lying or doubtful):
            pairs = [(right, left)]
        if rule == "equal":
            pairs += [(left, each) for each in cls.others(right)] if lying else []
            pairs += [(each, right) for each in cls.others(left)] if doubtful else []
        if rule == "second" and type(right) is str:
            pairs = [(left, right + cls.letters)]
        return [
            cls.replaced(*(cls.replaced(given, named, first, one) + (second, other)))
            for one, other in pairs
        ]

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
        """Whether something asserts with success; nothing is tried meanwhile."""
        reach, cls.reach = cls.reach, 0
        try:
            result = function(*given, **named)
            if hasattr(result, "__await__"):
                result.close()
                return False
            if hasattr(result, "__exit__") or getattr(result, "size", 1) == 0:
                return False  # of a block that nobody enters, of an array without elements
            return result is None or cls.truth(result)
        except BaseException as error:
            cls.stop(error)
            return False
        finally:
            cls.reach = reach

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

    @classmethod
    def foreign(cls, value, depth=0):
        """Whether a class that is written in Python has a say in a comparison."""
        kind = type(value)
        if cls.flags(kind) & cls.python_class:
            return True
        if depth < 4 and any(kind is each for each in cls.containers):
            inner = value.values() if kind is dict else value
            return any(cls.foreign(each, depth + 1) for _, each in zip(range(50), inner))
        return kind.__name__ == "ndarray" and bool(value.dtype.hasobject)

    @classmethod
    def others(cls, value):
        """Other values, far from it and unlike each other."""
        kind = type(value)
        if any(kind is each for each in cls.numbers):
            made = cls.changed(value, False, [9])
            return [made, -made] if made != value else [-made]
        if kind is bool:
            return [not value]
        if kind is str or kind is bytes:
            made = cls.changed(value, False, [9])
            return [made, value[1:]] if len(value) > 1 else [made]
        if any(kind is each for each in cls.containers):
            found = [cls.changed(value, False, [200])]
        else:
            found = [cls.letters, cls.shift, cls.Stranger()]
        if cls.reach > 1 and cls.foreign(value):
            own = cls.attempt(cls.changed, value, True, [200])
            found += [own] if type(own) is kind else []
        return found

    @classmethod
    def changed(cls, value, own, budget, factor=1):
        """Another value; what is of no known kind becomes a text, or one of its own class."""
        kind = type(value)
        budget[0] -= 1
        if kind is bool:
            return not value
        if any(kind is each for each in cls.numbers):
            made = value + abs(value) + factor * cls.shift
            return cls.shift if made == value or made != made else made
        if kind is str:
            return value + cls.letters
        if kind is bytes:
            return value + cls.letters.encode()
        if budget[0] <= 0:
            return cls.letters
        if any(kind is each for each in (list, tuple, set, frozenset)):
            start = [cls.changed(each, own, budget) for _, each in zip(range(50), value)]
            return kind(start + list(value)[50:] if start else [cls.shift])
        if kind is dict:
            made = dict(value)
            for key, _ in zip(list(value), range(50)):
                made[key] = cls.changed(value[key], own, budget)
            return made or {cls.letters: cls.shift}
        if not cls.flags(kind) & cls.python_class:
            made = cls.attempt(cls.sum_of, value)
            return cls.letters if made is None else made
        return cls.remade(value, budget) if own else cls.letters

    @classmethod
    def sum_of(cls, value):
        """Of times, numbers and arrays."""
        import datetime

        if isinstance(value, (datetime.date, datetime.timedelta)):
            return value + datetime.timedelta(cls.shift % 999 + 1)
        return value + abs(value) + cls.shift

    @classmethod
    def remade(cls, value, budget):
        """An object of the same class whose content is another, made without its class's help."""
        kind = type(value)
        for base in (int, float, str, bytes, list, tuple, dict, set, frozenset):
            if isinstance(value, base):
                made = cls.changed(base(value), True, budget)
                return kind(*made) if hasattr(kind, "_fields") else kind(made)
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
            other = cls.changed(each, True, budget, number + 1)
            object.__setattr__(made, name, other)
        return made

    class Watched(object):
        """While a test runs."""

        def __init__(self, reach):
            self.reach = reach

        def __enter__(self):
            Checks.reach, Checks.forged, Checks.alarmed = self.reach, False, set()

        def __exit__(self, *raised):
            Checks.reach = 0
