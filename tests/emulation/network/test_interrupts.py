import os
import signal
from collections.abc import Iterator

import pytest

from emulation.network.interrupts import Interrupts, undisturbed


@pytest.fixture(autouse=True)
def hangups() -> Iterator[None]:
    """SIGHUP is not ignored, as it is if the tests run under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_is_noticed_at_a_check_and_nowhere_else(number: signal.Signals) -> None:
    with Interrupts() as interrupts:
        interrupts.check()
        os.kill(os.getpid(), number)
        signal.pthread_sigmask(signal.SIG_BLOCK, ())  # a moment at which handlers run
        with pytest.raises(KeyboardInterrupt):
            interrupts.check()


def test_at_a_prompt_sigint_is_the_prompts() -> None:
    with Interrupts() as interrupts, interrupts.at_prompt():
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
        assert not interrupts.requested


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_at_a_prompt_the_others_leave_it(number: signal.Signals) -> None:
    with Interrupts() as interrupts, pytest.raises(KeyboardInterrupt), interrupts.at_prompt():
        os.kill(os.getpid(), number)


def test_a_hangup_that_is_ignored_as_by_nohup_stays_so() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with Interrupts() as interrupts:
        os.kill(os.getpid(), signal.SIGHUP)
        with interrupts.at_prompt():
            os.kill(os.getpid(), signal.SIGHUP)
        interrupts.check()


def test_handlers_are_restored() -> None:
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    with Interrupts() as interrupts, interrupts.at_prompt():
        pass
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before


def test_what_is_undisturbed_is_done_before_a_signal_is_handled() -> None:
    done = []
    before = signal.getsignal(signal.SIGALRM)
    with Interrupts() as interrupts:
        with undisturbed():
            for number in (signal.SIGINT, signal.SIGTERM):
                os.kill(os.getpid(), number)
            assert not interrupts.requested
            done.append("work")
        assert interrupts.requested
        assert interrupts.last in (signal.SIGINT, signal.SIGTERM)
    assert done == ["work"]
    assert signal.getsignal(signal.SIGALRM) is before
