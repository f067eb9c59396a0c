"""What clients tell a node app again that was not running."""

from emulation.network.driver import held
from emulation.workloads.base import Operation


def test_subscriptions_that_hold_advertisements_and_the_rest_of_the_route() -> None:
    route = {"x": 1.0, "y": 2.0, "speed": 3.0, "pause": 4.0, "remaining": 5.0}
    operations = [
        Operation(time=1, node=1, action="advertise", event={"topic": "a"}),
        Operation(time=1, node=1, action="subscribe", subscription=1),
        Operation(time=2, node=1, action="subscribe", subscription=2),
        Operation(time=3, node=1, action="unsubscribe", subscription=1),
        Operation(time=3, node=1, action="publish", sequence=1, event={"topic": "a"}),
        Operation(time=4, node=1, action="navigate", event=route | {"x": 9.0}),
        Operation(time=6, node=1, action="navigate", event=route),
        Operation(time=7, node=2, action="subscribe", subscription=3),
        Operation(time=20, node=1, action="subscribe", subscription=4),
    ]
    again = held(operations, 1, 8.0)
    assert [each.action for each in again] == ["advertise", "navigate", "subscribe"]
    assert again[1].event == route | {"remaining": 3.0}
    assert again[2].subscription == 2
    assert held(operations, 1, 60.0)[1].event["remaining"] == 0.0
