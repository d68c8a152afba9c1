"""What a rewritten Python test asserts by; its class is put at the head of the test file.

In a true run it only passes on. In a twin it tries each assertion first with other values, and all
of these tries must fail: one that holds was forged, and lets the check at the test's end hold too.
Then it goes on as ever. How far it goes is said at the head of each test: its reach. With 1 another
value is one of its own kind where that is known, else a text; with 2 also an object of the same
class with another content, and assertions of unknown names and comparisons inside of other
expressions are tried; with 0 nothing is.

It runs under every Python that a repository needs, beside whatever its test file imports.
"""


class Checks(object):
    letters, shift = "letters", 7
    reach, forged, look = 0, False, None
    scalars = (bool, int, float, complex, str, bytes)
    operators = {
        "==": lambda left, right: left == right,
        "!=": lambda left, right: left != right,
        "<": lambda left, right: left < right,
        "<=": lambda left, right: left <= right,
        ">": lambda left, right: left > right,
        ">=": lambda left, right: left >= right,
        "in": lambda left, right: left in right,
        "not in": lambda left, right: left not in right,
        "-": lambda left, right: left - right,
    }
    opposites = {
        "==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">",
        "in": "not in", "not in": "in",
    }  # fmt: skip

    @classmethod
    def begin(cls, number, other, reach):
        cls.reach, cls.forged = reach if number != other else 0, False

    @classmethod
    def end(cls, number, other, equal=None):
        """Fails in a twin, by the test's own means: what disarms any of them meets it."""
        forged, cls.reach = cls.forged, 0
        if not forged:
            try:
                assert number == other
            except AssertionError:
                if equal is None:
                    raise
                equal(number, other)

    # Comparisons

    @classmethod
    def compared(cls, operator, wanted, left, right):
        """A comparison whose truth is wanted, or its untruth."""
        if cls.reach:
            meant = operator if wanted else cls.opposites[operator]
            for used, one, other in cls.attempt(cls.comparisons, meant, operator, left, right):
                cls.try_out(cls.truth, wanted, cls.operators[used], one, other)
        return cls.operators[operator](left, right)

    @classmethod
    def comparisons(cls, meant, operator, left, right):
        if meant in ("==", "-"):
            return [(operator,) + pair for pair in cls.pairs(left, right)]
        if meant == "!=":
            return [(operator, left, left), (operator, right, right)]
        if meant == "in":
            return [(operator,) + pair for pair in cls.members(left, right)]
        if meant == "not in":
            return [(operator, each, right) for each in cls.some(right)]
        return [(cls.opposites[operator], left, right)]

    @staticmethod
    def truth(wanted, compare, left, right):
        return bool(compare(left, right)) == wanted

    @classmethod
    def pairs(cls, left, right):
        return [(left, each) for each in cls.others(right)] + [
            (each, right) for each in cls.others(left)
        ]

    @classmethod
    def members(cls, left, right):
        found = [(each, right) for each in cls.others(left)]
        if type(right) in (list, tuple, set, frozenset, dict):
            plain = type(left) in (int, float, str, bytes)
            changed = [cls.changed(each, False) for each in right]
            found.append((left, [e for e in changed if not (plain and e == left)]))
        return found

    @staticmethod
    def some(container):
        """The first of what is in a container, which stays as it is."""
        if isinstance(container, (str, bytes)):
            return [container[:1]] if container else []
        iterator = iter(container)
        return [] if iterator is container else [each for each, _ in zip(iterator, "a")]

    # Comparisons and differences inside of an expression that is to be true

    class Look(object):
        """One evaluation: which of its inner values is another, and which of them were true."""

        def __init__(self, number=None, variant=0):
            self.number, self.variant, self.truths, self.left = number, variant, [], 0

    @classmethod
    def nested(cls, expression):
        """Each true inner value by itself must let the whole be true no longer."""
        outer, held = cls.look, []
        try:
            number = variant = 0
            for _ in range(16 if cls.reach > 1 else 0):
                look = cls.look = cls.Look(number, variant)
                if cls.holds(expression) and look.left:
                    held.append(number)
                if not look.left and not variant:
                    break  # the last one was reached before
                number, variant = (number, variant + 1) if look.left > 1 else (number + 1, 0)
            look = cls.look = cls.Look()
            result = expression()
            cls.forged |= any(look.truths[number : number + 1] == [True] for number in held)
            return result
        finally:
            cls.look = outer

    @classmethod
    def inner(cls, operators, *operands):
        look, pairs = cls.look, list(zip(operators, operands, operands[1:]))
        number = None if look is None else len(look.truths)
        if look is not None and number == look.number:
            found = []
            for operator, left, right in pairs:
                found += cls.attempt(cls.comparisons, operator, operator, left, right)
            found = found[look.variant :]
            look.left = len(found)
            look.truths.append(None)
            for operator, left, right in found[:1]:
                return cls.operators[operator](left, right)
        for operator, left, right in pairs:
            result = cls.operators[operator](left, right)
            if len(pairs) > 1 and not result:
                break
        if look is not None and number != look.number:
            truth = cls.attempt(lambda: [operator == "-" or bool(result)]) or [True]
            look.truths.append(truth[0])
        return result

    # Calls

    @classmethod
    def calling(cls, rule, function):
        """A function that asserts, to be called in its place."""
        if not cls.reach or (rule == "unknown" and cls.reach < 2):
            return function

        def call(*given, **named):
            if rule == "raises":
                return cls.raising(function, given, named)
            for used, other, more in cls.attempt(cls.calls, rule, function, given, named):
                cls.try_out(used, *other, **more)
            return function(*given, **named)

        return call

    @classmethod
    def calls(cls, rule, function, given, named):
        if rule == "given":
            found = []
            for number, value in enumerate(given):
                for each in cls.others(value):
                    found.append((function, given[:number] + (each,) + given[number + 1 :], named))
            for name, value in named.items():
                for each in cls.others(value):
                    found.append((function, given, dict(named, **{name: each})))
            return found
        if len(given) < 2:
            return []
        left, right, used, texts = given[0], given[1], function, (cls.letters, cls.letters[::-1])
        if rule == "equal":
            pairs = cls.pairs(left, right)
        elif rule == "differ":
            pairs = [(left, left), (right, right)]
        elif rule == "member":
            pairs = cls.members(left, right)
        elif rule == "absent":
            pairs = [(each, right) for each in cls.some(right)]
        elif rule == "instance":
            stranger = type(cls.letters, (object,), {})
            pairs = [(stranger if function is issubclass else stranger(), right)]
        elif rule == "regex":
            pairs = [(left, texts[0]), (texts[1], right)]
        elif rule in ("second", "unknown"):
            pairs = [(left, each) for each in cls.others(right)]
        else:
            used, pairs = getattr(function.__self__, rule), [(left, right)]
        return [(used, pair + given[2:], named) for pair in pairs]

    @classmethod
    def raising(cls, function, given, named):
        """With a function that is to raise something, or as the head of a block."""
        strange = type(cls.letters, (BaseException,), {})
        place = [n for n, each in enumerate(given) if n and callable(each)][:1]
        wrong = (strange,) + given[1:]
        if not place:
            block = function(*given, **named)
            if not hasattr(block, "__exit__"):
                return block
            return cls.Block(cls, block, function, given, wrong, named, strange)
        raised = []

        def watched(*one, **other):
            try:
                return given[place[0]](*one, **other)
            except BaseException as error:
                raised.append(error)
                raise

        def again(error):
            def throw(*one, **other):
                raise error

            return throw

        def around(first, inner):
            return (first,) + given[1 : place[0]] + (inner,) + given[place[0] + 1 :]

        result = function(*around(given[0], watched), **named)
        if raised:
            cls.try_out(function, *around(strange, again(raised[0])), **named)
            cls.try_out(function, *around(given[0], again(strange())), **named)
        return result

    @classmethod
    def try_out(cls, function, *given, **named):
        """What must fail."""
        cls.forged |= cls.holds(function, *given, **named)

    @classmethod
    def holds(cls, function, *given, **named):
        """Whether something asserts with success; what it calls asserts as ever meanwhile."""
        reach, cls.reach = cls.reach, 0
        try:
            result = function(*given, **named)
            return result is None or bool(result)
        except BaseException as error:
            cls.stop(error)
            return False
        finally:
            cls.reach = reach

    @classmethod
    def attempt(cls, make, *given):
        try:
            return make(*given)
        except BaseException as error:
            cls.stop(error)
            return []

    @staticmethod
    def stop(error):
        if isinstance(error, KeyboardInterrupt):
            raise error

    # Other values

    @classmethod
    def others(cls, value):
        found = [cls.changed(value, False)]
        if cls.reach > 1 and type(value) not in cls.scalars:
            own = cls.attempt(lambda: [cls.changed(value, True)])
            found += [each for each in own if type(each) is type(value)]
        return found

    @classmethod
    def changed(cls, value, own, depth=0):
        """Another value; what is of no known kind becomes a text, or one of its own class."""
        kind = type(value)
        if kind is bool:
            return not value
        if kind in (int, float, complex):
            made = value + abs(value) + cls.shift
            return cls.shift if made == value or made != made else made
        if kind is str:
            return value + cls.letters
        if kind is bytes:
            return value + cls.letters.encode()
        if depth > 6 or isinstance(value, type):
            return cls.letters
        if kind in (list, tuple, set, frozenset):
            start = [cls.changed(each, own, depth + 1) for _, each in zip(range(50), value)]
            rest = list(value)[50:]
            return kind(start + rest if start else [cls.shift])
        if kind is dict:
            made = {key: cls.changed(each, own, depth + 1) for key, each in value.items()}
            return made or {cls.letters: cls.shift}
        made = cls.attempt(cls.sum_of, value)
        if len(made):
            return made[0]
        for base in (int, float, str, bytes, list, tuple, dict, set, frozenset):
            if isinstance(value, base):
                made = cls.changed(base(value), own, depth + 1)
                return cls.of_class(value, made) if own else made
        return cls.remade(value, depth) if own else cls.letters

    @classmethod
    def sum_of(cls, value):
        """Of numbers, arrays and times."""
        import datetime

        kind = type(value)
        if kind in (datetime.datetime, datetime.date):
            return [value + datetime.timedelta(cls.shift)]
        if kind is datetime.timedelta:
            return [value + datetime.timedelta(cls.shift)]
        if kind.__module__.partition(".")[0] in ("decimal", "fractions", "numpy", "pandas"):
            return [value + abs(value) + cls.shift]
        return []

    @classmethod
    def of_class(cls, value, made):
        kind = type(value)
        members = [each for each in getattr(kind, "__members__", {}).values() if each is not value]
        if members:
            return members[0]
        return kind(*made) if hasattr(kind, "_fields") else kind(made)

    @classmethod
    def remade(cls, value, depth):
        """An object of the same class whose content is another, made without its class's help."""
        kind = type(value)
        if hasattr(kind, "__members__"):
            return cls.of_class(value, cls.letters)
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
        for name, each in content.items():
            object.__setattr__(made, name, cls.changed(each, False, depth + 1))
        return made

    class Block(object):
        """The block of a `with` that is to raise something, and the tries at its end."""

        def __init__(self, checks, block, function, given, wrong, named, strange):
            self.checks, self.block, self.strange = checks, block, strange
            self.tries = function, given, wrong, named

        def __enter__(self):
            return self.block.__enter__()

        def __exit__(self, kind, error, trace):
            result = self.block.__exit__(kind, error, trace)
            function, given, wrong, named = self.tries
            strange = self.strange()
            self.checks.try_out(self.left, function, wrong, named, (kind, error, trace))
            self.checks.try_out(self.left, function, given, named, (type(strange), strange, trace))
            return result

        @staticmethod
        def left(function, given, named, raised):
            block = function(*given, **named)
            block.__enter__()
            return bool(block.__exit__(*raised))

        def __getattr__(self, name):
            return getattr(self.block, name)
