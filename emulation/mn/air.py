"""The medium of a script's radios: one process, and the requests to it (`emulation.media`)."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import IO, Any, Final, get_args

from emulation.media.control import ControlError, answers, request
from emulation.mn.radios import Radio
from emulation.mn.session import NetworkFiles, ScriptError, Session
from emulation.network.processes import Process, await_condition, last_line
from emulation.network.warm import Warm
from emulation.radio.reach import power_for, range_of
from emulation.radio.spec import PROPAGATION_MODELS, LogDistance, RadioSpec, Shadowing
from emulation.wifi.settings import Policy
from nodeapp.parameters import suggestion

MEDIUM: Final = "emulation.media.wireless"
RECORDER: Final = "capture"
SPARE: Final = 32
"""Radios that a script may add while its network runs."""
READY: Final = 30.0
"""Seconds that the medium may take to make its devices."""
FRESH: Final = 0.05
"""Seconds for which the last reported state of all radios is reused."""
OTHER_MODELS: Final = ("ITU", "young", "youngModel", "nakagami")
"""Propagation models of some versions of Mininet-WiFi that are not supported here."""
VARIANCE_DB: Final = 2.0
"""Default of `variance`, which Mininet-WiFi uses as the standard deviation of shadowing."""
OLD_ENDING: Final = "PropagationLossModel"
"""Ending of models' names in Mininet-WiFi 2.0."""
MOST_FADING: Final = 20.0


def fading_of(fading_cof: Any) -> float:
    """Return the standard deviation of fading, decibels, of `fading_cof`.  Raises `ScriptError`."""
    try:
        decibels = float(fading_cof or 0)
    except (TypeError, ValueError):
        decibels = -1.0
    if not 0 <= decibels <= MOST_FADING:
        raise ScriptError(f"fading_cof={fading_cof!r}: give decibels from 0 to {MOST_FADING:g}")
    return decibels


def _described(node: Any) -> dict[str, Any]:
    return {"name": node.name, "pid": node.pid, "position": list(node.position)}


class ScriptAir:
    """The medium: first its settings, then its process."""

    def __init__(self, session: Session, files: NetworkFiles) -> None:
        self._session = session
        self._files = files
        self.propagation: dict[str, Any] = {"model": "log-distance", "exponent": 3.0}
        """Mininet-WiFi's default."""
        self.noise_th = -91.0
        self.policy: Policy = "sticky"
        self.by_range = False
        """Whether stations join by the range of access points, not by levels."""
        self.fading_db = 0.0
        self.running = False
        self._processes: dict[str, Process] = {}
        self._log: IO[bytes] = (session.logs / "emulation.log").open("ab")
        self._warm = Warm((MEDIUM, RECORDER), os.environ, self._log)
        self._states: dict[str, dict[str, Any]] = {}
        self._asked = -FRESH

    # -- settings -------------------------------------------------------------------------------

    def set_propagation(self, options: Mapping[str, Any]) -> None:
        """Choose a propagation model, with Mininet-WiFi's keywords.  Raises `ScriptError`."""
        arguments = dict(options)
        asked = str(arguments.pop("model", "logDistance"))
        name = asked.removesuffix(OLD_ENDING)
        model = PROPAGATION_MODELS.get(name)
        call = "setPropagationModel"
        if name != asked:
            self._session.limit(f"{call}(model={asked!r})", f"it is now called {name}")
        if model is None:
            wish = f"{call}(model={name!r})"
            known = ", ".join(PROPAGATION_MODELS)
            if name not in OTHER_MODELS:
                meant = suggestion(name, PROPAGATION_MODELS)
                raise ScriptError(f"{wish}: there is no such model{meant}; there are {known}")
            self._session.limit(wish, f"logDistance is used; choose from {known}")
            model = LogDistance
        settings: dict[str, Any] = {"model": model.model_fields["model"].default}
        if model is Shadowing:
            settings["sigma_db"] = VARIANCE_DB
        for key, value in arguments.items():
            if key in model.keywords:
                settings[model.keywords[key]] = float(value)
            elif key == "noise_th":
                self.noise_th = float(value)
            elif key == "sL" and model in (LogDistance, Shadowing):
                if float(value) != 1:
                    self._session.limit(f"{call}(sL={value})", "no system loss is added")
            else:
                known = ", ".join([*model.keywords, "noise_th"])
                self._session.limit(f"{call}({key}={value})", f"{name} takes {known} only")
        try:
            RadioSpec.model_validate({"propagation": settings})
        except ValueError as error:
            problem = str(error).splitlines()[2].strip()
            raise ScriptError(f"{call}: {problem}") from None
        self.propagation = settings

    def set_policy(self, wish: str, policy: Any) -> None:
        """Choose how stations select an access point.  Raises `ScriptError`."""
        if policy not in get_args(Policy):
            raise ScriptError(f"{wish}: choose ssf or llf")
        self.policy = policy

    def reach(self, radio: Radio) -> float:
        """Return how far a radio reaches another with the same antenna, metres."""
        return range_of(self._spec(radio), radio.txpower + 2 * radio.antennaGain, self.noise_th)

    def power(self, radio: Radio, metres: float) -> int:
        """Return the power, dBm, for a range, rounded as in Mininet-WiFi, where 1 is the least.

        It rounds up with logDistance, and down with the other models (`GetPowerGivenRange`).
        """
        exact = power_for(self._spec(radio), metres, 2 * radio.antennaGain, self.noise_th)
        up = self.propagation["model"] == LogDistance.model_fields["model"].default
        return max(1, math.ceil(exact) if up else int(exact))

    def _spec(self, radio: Radio) -> RadioSpec:
        return RadioSpec.model_validate(
            {"propagation": self.propagation, "frequency_mhz": radio.centre_mhz()}
        )

    # -- the process ------------------------------------------------------------------------------

    def start(self, nodes: Iterable[Any], radios: Iterable[Radio]) -> None:
        """Start the medium with all nodes and radios.  Raises `ScriptError`."""
        spec = self._session.spec
        config = {
            "seed": spec.seed,
            "control": str(self._files.control),
            "captures": str(self._files.folder / "captures") if spec.captures else None,
            "radio": {"propagation": self.propagation},
            "threshold_dbm": self.noise_th,
            "fading_db": self.fading_db,
            "spare": SPARE,
            "association": {"policy": self.policy, "by_range": self.by_range},
            "nodes": [_described(node) for node in nodes],
            "radios": [radio.describe() for radio in radios],
        }
        self._start("medium", MEDIUM, config)
        medium = self._processes["medium"]
        await_condition(lambda: medium.poll() is not None or answers(self._files.control), READY)
        if not answers(self._files.control):
            self._log.flush()
            problem = last_line(self._session.logs / "emulation.log")
            raise ScriptError(f"the radio medium did not start: {problem}")
        self.running = True

    def add(self, node: Any) -> None:
        """Add a node and its radios to the running medium.  Raises `ScriptError`."""
        radios = [radio.describe() for radio in node.wintfs.values()]
        self.ask({"op": "add", "node": _described(node), "radios": radios})

    def record(self, interfaces: list[dict[str, Any]], name: str = "recorder") -> None:
        """Capture on interfaces (entries of `capture`'s configuration) from now on."""
        status = self._files.state / f"{name}.json"
        config = {"interfaces": interfaces, "status": str(status)}
        self._start(name, RECORDER, config)
        recorder = self._processes[name]
        await_condition(lambda: recorder.poll() is not None or status.exists(), READY)
        if not status.exists():
            self._log.flush()
            why = last_line(self._session.logs / "emulation.log")
            self._session.note(f"the {name} did not start, its captures are missing: {why}")

    def _start(self, name: str, module: str, config: Mapping[str, Any]) -> None:
        path = self._files.state / f"{name}.config.json"
        path.write_text(json.dumps(config), encoding="utf-8")
        try:
            self._processes[name] = self._warm.start(module, [str(path)], self._log)
        except OSError as error:
            raise ScriptError(f"the {name} did not start: {error.strerror or error}") from None

    def stop(self) -> None:
        """End the processes, the recorder first, so that it writes what it still holds."""
        for process in reversed(self._processes.values()):
            if process.poll() is None:
                process.terminate()
                with suppress(Exception):
                    process.wait(3.0)
        self._processes.clear()
        self.running = False
        self._warm.close()
        self._log.close()

    # -- requests ---------------------------------------------------------------------------------

    def ask(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """Return the medium's answer to a request.  Raises `ScriptError` if it refuses."""
        try:
            answer = request(self._files.control, message)
        except ControlError as error:
            raise ScriptError(str(error)) from None
        self._asked = -FRESH
        return answer

    def states(self) -> list[dict[str, Any]]:
        """Return the state of all radios, as the medium reports it."""
        if not self.running:
            return []
        if time.monotonic() - self._asked > FRESH:
            radios = self.ask({"op": "radios"})["radios"]
            self._states = {state["interface"]: state for state in radios}
            self._asked = time.monotonic()
        return list(self._states.values())

    def radio(self, interface: str) -> Mapping[str, Any]:
        """Return the state of one radio; empty if the medium has none of this name."""
        self.states()
        return self._states.get(interface, {})

    def bound(self, radio: Radio, bw: float, loss: float, latency: float) -> None:
        """Bound the link of a radio to its access point: Mb/s, percent, milliseconds."""
        point = radio.associatedTo
        if point is None:
            return
        wish: dict[str, Any] = {"op": "override", "one": radio.name, "other": point.name}
        if bw:
            wish["rate_mbps"] = radio.rate_bound(float(bw), point)
        if loss:
            wish["loss"] = min(1.0, float(loss) / 100)
        if latency:
            wish["delay"] = float(latency) / 1000
        self.ask(wish)
