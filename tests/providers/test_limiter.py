"""How many calls run at once follows what the endpoint allows."""

from __future__ import annotations

import threading
import time

from chimera.providers.limiter import AdaptiveLimiter, limiter_for


def test_a_refusal_halves_the_limit_once_for_calls_of_one_wave():
    limiter = AdaptiveLimiter(initial=16)
    wave = [limiter.acquire() for _ in range(16)]

    for began in wave:
        assert began is not None
        limiter.refused(began)

    assert limiter.limit == 8
    later = time.monotonic()
    while later <= limiter._halved_at:
        later = time.monotonic()
    limiter.refused(later)
    assert limiter.limit == 4


def test_until_the_first_refusal_the_limit_doubles_each_round():
    limiter = AdaptiveLimiter(initial=4)
    for expected in (8, 16, 32):
        wave = [limiter.acquire() for _ in range(int(limiter.limit))]
        for _ in wave:
            limiter.succeeded()
        for _ in wave:
            limiter.release()
        assert limiter.limit == expected


def test_a_limit_that_is_not_used_does_not_double():
    limiter = AdaptiveLimiter(initial=32)
    for _ in range(32):
        limiter.acquire()
        limiter.succeeded()
        limiter.release()

    assert 32 < limiter.limit <= 33


def test_a_user_who_says_how_many_has_them_from_the_start():
    limiter = AdaptiveLimiter(initial=32)
    limiter.keep_to(500)
    assert limiter.limit == 500
    limiter.keep_to(5)
    assert limiter.limit == 5

    for _ in range(50):
        limiter.succeeded()
    assert limiter.limit == 5


def test_after_a_refusal_successes_raise_the_limit_slowly_up_to_the_highest():
    limiter = AdaptiveLimiter(initial=4, highest=3)
    limiter.refused(time.monotonic())
    for _ in range(2):
        limiter.succeeded()

    assert 2.8 < limiter.limit < 3
    for _ in range(10):
        limiter.succeeded()
    assert limiter.limit == 3


def test_no_more_than_the_limit_run_at_once():
    limiter = AdaptiveLimiter(initial=3, highest=3)
    together = threading.Barrier(3)  # broken, were it never three at once
    counted: list[int] = []

    def work() -> None:
        assert limiter.acquire() is not None
        together.wait(60)
        counted.append(limiter.running)
        limiter.release()

    threads = [threading.Thread(target=work) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(counted) == 12
    assert max(counted) <= 3
    assert limiter.running == 0


def test_one_call_is_always_allowed_and_waiting_ends():
    limiter = AdaptiveLimiter(initial=1)
    began = limiter.acquire()
    assert began is not None
    limiter.refused(began)

    assert limiter.limit == 1
    assert limiter.acquire(timeout=0.01) is None
    limiter.release()
    assert limiter.acquire(timeout=0.01) is not None


def test_a_pause_holds_for_every_call():
    limiter = AdaptiveLimiter()
    limiter.refused(time.monotonic(), 0.2)

    assert limiter.acquire(timeout=0.01) is None
    began = limiter.acquire(timeout=30)
    assert began is not None
    assert began >= limiter._not_before


def test_an_endpoint_has_one_limiter():
    assert limiter_for("https://one") is limiter_for("https://one")
    assert limiter_for("https://one") is not limiter_for("https://two")


def test_those_who_ask_take_turns_however_much_each_asks():
    limiter = AdaptiveLimiter(initial=2, highest=2)
    turns: list[str] = []

    def call(of: str) -> None:
        assert limiter.acquire(of=of) is not None
        turns.append(of)

    def waiting() -> int:
        with limiter._lock:
            return sum(map(len, limiter._waiting.values()))

    threads = []
    for of in ["greedy"] * 20 + ["modest", "other"]:
        threads.append(threading.Thread(target=call, args=(of,)))
        threads[-1].start()
        while waiting() + limiter.running < len(threads):
            time.sleep(0.001)
    given_back = ["greedy", "greedy", "modest"]
    for number in range(22):
        while len(turns) + waiting() < len(threads):
            time.sleep(0.001)
        limiter.release(given_back[number] if number < 3 else turns[-1])
    for thread in threads:
        thread.join()

    assert set(turns[2:5]) == {"greedy", "modest", "other"}
    assert turns.count("greedy") == 20
    assert limiter._waiting == {}


def test_who_gives_up_leaves_the_end_of_a_pause_to_another():
    limiter = AdaptiveLimiter()
    limiter.refused(time.monotonic(), 0.2)
    patient = threading.Thread(target=limiter.acquire)
    patient.start()

    assert limiter.acquire(timeout=0.01) is None
    patient.join(60)
    assert not patient.is_alive()
