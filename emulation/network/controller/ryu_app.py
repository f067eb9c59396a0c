"""The Ryu application of the mesh access points: the only file that imports Ryu or os-ken.

    .ryu/bin/python -m emulation.network.controller CONFIG.json

with {"port": TCP port on loopback, "bridges": [{"name", "datapath", "broker"}],
"classes": {name: DS code point}, "flows": path, "status": path}.

It installs the flows of every bridge that connects (`flows.py`), moves the flows of stations that
change their access point, and requests the counters every `POLL` seconds.  The file `status`
appears when every bridge has confirmed its flows (OpenFlow barrier); from then on it is touched
every `POLL` seconds, a sign of life that needs no bridge.  The file `flows` always holds the last
complete round of counters; on SIGTERM the application requests a last round, marks it `complete`
and ends.  Both files are written whole or not at all.

It runs on Ryu or, where that is not installed, on os-ken, Ryu's maintained fork, whose modules have
the same names; the first line of its log says which.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import time
from importlib import import_module, metadata
from pathlib import Path
from typing import Any, Final

import emulation.network.plain_distutils  # noqa: F401  before Ryu

# Nothing here looks up names, and resolving them in green threads is a quarter of all imports.
os.environ["EVENTLET_NO_GREENDNS"] = "yes"
# Since version 4 os-ken uses system threads by default; the handlers below must take turns.
os.environ["OSKEN_HUB_TYPE"] = "eventlet"
import eventlet

eventlet.monkey_patch()
import eventlet.wsgi  # noqa: E402

# Ryu 4.34 imports a name that newer eventlets lack, for a web server not used here.
eventlet.wsgi.ALREADY_HANDLED = [b""]

try:
    import ryu as framework
except ModuleNotFoundError:
    import os_ken as framework

from emulation.network.controller.flows import (  # noqa: E402
    CONTROLLER,
    COUNTING,
    Bridge,
    Flow,
    FlowComputation,
)
from emulation.whole import write_text  # noqa: E402


def _module(name: str) -> Any:
    return import_module(f"{framework.__name__}.{name}")


app_manager, cfg, hub = _module("base.app_manager"), _module("cfg"), _module("lib.hub")
ofp_event, handler = _module("controller.ofp_event"), _module("controller.handler")
ofproto_v1_3 = _module("ofproto.ofproto_v1_3")
log = _module("log")
_module("controller.controller")  # registers the options of the OpenFlow port
CONFIG_DISPATCHER, MAIN_DISPATCHER = handler.CONFIG_DISPATCHER, handler.MAIN_DISPATCHER
HANDSHAKE_DISPATCHER, set_ev_cls = handler.HANDSHAKE_DISPATCHER, handler.set_ev_cls
App: Any = app_manager.RyuApp if framework.__name__ == "ryu" else app_manager.OSKenApp

FORMAT: Final = 1
"""Version of the file of counters."""
POLL: Final = 1.0
"""Seconds between rounds of counters."""
SETTLE: Final = 0.5
"""Seconds until the bridges' flow counters include all frames
(`emulation.network.switches`)."""
LAST_ROUND: Final = 3.0
"""Seconds that the bridges have to answer the last round."""
MISS_BYTES: Final = 128
"""Bytes of a frame that go to the controller."""

OPTION: Final = "mesh-config"
cfg.CONF.register_cli_opts([cfg.StrOpt(OPTION, default="", help="configuration file")])


class MeshAccessPoints(App):  # type: ignore[misc]  # no types
    """Flows and counters of all access points."""

    OFP_VERSIONS = (ofproto_v1_3.OFP_VERSION,)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        config = json.loads(Path(cfg.CONF.mesh_config).read_text(encoding="utf-8"))
        bridges = [Bridge(**bridge) for bridge in config["bridges"]]
        self._computation = FlowComputation(bridges, config["classes"])
        self._flows, self._status = Path(config["flows"]), Path(config["status"])
        self._datapaths: dict[int, Any] = {}
        self._confirmed: set[int] = set()
        self._partial: dict[int, list[Any]] = {}
        """Answers to the current round, by bridge; those in `_answered` are complete."""
        self._round: dict[int, int] = {}
        """Transaction id of the current round's request, by bridge."""
        self._answered: set[int] = set()
        self._moves: list[dict[str, Any]] = []
        self._stopping = False

    def start(self) -> None:
        """Start polling the counters."""
        super().start()
        signal.signal(signal.SIGTERM, self._stop)
        self.threads.append(hub.spawn(self._poll))

    def _stop(self, *_: object) -> None:
        self._stopping = True

    # Bridges.

    @set_ev_cls(ofp_event.EventOFPSwitchFeatures, CONFIG_DISPATCHER)  # type: ignore[untyped-decorator]
    def connected(self, event: Any) -> None:
        """Give a bridge its flows."""
        datapath = event.msg.datapath
        if datapath.id not in self._computation.bridges:
            self.logger.warning("bridge %x is not one of this run", datapath.id)
            return
        self._datapaths[datapath.id] = datapath
        for flow in self._computation.initial(datapath.id):
            self._change(datapath, flow, add=True)
        datapath.send_msg(datapath.ofproto_parser.OFPBarrierRequest(datapath))

    @set_ev_cls(  # type: ignore[untyped-decorator]
        ofp_event.EventOFPBarrierReply, [CONFIG_DISPATCHER, MAIN_DISPATCHER]
    )
    def confirmed(self, event: Any) -> None:
        """Note that a bridge has its flows; write the status file when all have."""
        self._confirmed.add(event.msg.datapath.id)
        if len(self._confirmed) == len(self._computation.bridges) and not self._status.exists():
            _write(self._status, {"ready": True})

    @set_ev_cls(ofp_event.EventOFPPacketIn, MAIN_DISPATCHER)  # type: ignore[untyped-decorator]
    def frame_received(self, event: Any) -> None:
        """Learn where a station is."""
        message = event.msg
        bridge = message.datapath.id
        changes = self._computation.heard(bridge, message.match["in_port"], message.data)
        for change in changes:
            datapath = self._datapaths.get(change.datapath)
            if datapath is not None:
                self._change(datapath, change.flow, add=change.add)
        if changes:
            names = {bridge.datapath: bridge.name for bridge in self._computation.bridges.values()}
            before = [names[change.datapath] for change in changes if not change.add]
            station = dict(changes[0].flow.match)["eth_dst"]
            move = {"time_ns": time.time_ns(), "station": station, "access_point": names[bridge]}
            self._moves.append(move | {"left": before[0] if before else None})
            self.logger.info("%s is at %s, was at %s", station, names[bridge], before or "none")

    @set_ev_cls(  # type: ignore[untyped-decorator]
        ofp_event.EventOFPErrorMsg, [HANDSHAKE_DISPATCHER, CONFIG_DISPATCHER, MAIN_DISPATCHER]
    )
    def refused(self, event: Any) -> None:
        """Log what a bridge refused."""
        message = event.msg
        self.logger.error("a bridge refused: type %s code %s", message.type, message.code)

    @staticmethod
    def _change(datapath: Any, flow: Flow, *, add: bool) -> None:
        ofproto, parser = datapath.ofproto, datapath.ofproto_parser
        instructions = []
        if flow.metadata is not None:
            instructions = [
                parser.OFPInstructionWriteMetadata(flow.metadata, 0xFFFFFFFFFFFFFFFF),
                parser.OFPInstructionGotoTable(COUNTING),
            ]
        elif flow.outputs:
            actions = [
                parser.OFPActionOutput(port, MISS_BYTES if port == CONTROLLER else 0)
                for port in flow.outputs
            ]
            instructions = [
                parser.OFPInstructionActions(ofproto.OFPIT_APPLY_ACTIONS, actions),
            ]
        datapath.send_msg(
            parser.OFPFlowMod(
                datapath=datapath,
                table_id=flow.table,
                priority=flow.priority,
                cookie=flow.cookie,
                command=ofproto.OFPFC_ADD if add else ofproto.OFPFC_DELETE_STRICT,
                out_port=ofproto.OFPP_ANY,
                out_group=ofproto.OFPG_ANY,
                match=parser.OFPMatch(**dict(flow.match)),
                instructions=instructions,
            )
        )

    # Counters.

    def _poll(self) -> None:
        due = time.monotonic()
        while not self._stopping:
            if time.monotonic() >= due:
                due += POLL
                if self._status.exists():
                    self._status.touch()
                self._ask()
            hub.sleep(0.05)
        hub.sleep(SETTLE)
        self._ask()
        deadline = time.monotonic() + LAST_ROUND
        while len(self._answered) < len(self._computation.bridges) and time.monotonic() < deadline:
            hub.sleep(0.02)
        self._export(complete=len(self._answered) == len(self._computation.bridges))
        # The manager would wait for its applications forever; it has nothing left to write.
        os._exit(0)

    def _ask(self) -> None:
        self._answered.clear()
        self._partial = {number: [] for number in self._datapaths}
        self._round = {}
        for number, datapath in self._datapaths.items():
            request = datapath.ofproto_parser.OFPFlowStatsRequest(datapath, table_id=COUNTING)
            self._round[number] = datapath.set_xid(request)
            datapath.send_msg(request)

    @set_ev_cls(ofp_event.EventOFPFlowStatsReply, MAIN_DISPATCHER)  # type: ignore[untyped-decorator]
    def counted(self, event: Any) -> None:
        """Take the counters of a bridge; write them once all bridges have answered."""
        message = event.msg
        number = message.datapath.id
        if message.xid != self._round.get(number):
            return  # late: it belongs to an earlier round
        self._partial[number] += message.body
        if not message.flags & message.datapath.ofproto.OFPMPF_REPLY_MORE:
            self._answered.add(number)
            if len(self._answered) == len(self._computation.bridges) and not self._stopping:
                self._export(complete=False)

    def _export(self, *, complete: bool) -> None:
        access_points = []
        for number, bridge in self._computation.bridges.items():
            counters = []
            for entry in self._partial.get(number, ()):
                names = self._computation.counted(entry.cookie)
                if names is not None:
                    path, name = names
                    counts = {"frames": entry.packet_count, "bytes": entry.byte_count}
                    counters.append({"path": path, "class": name} | counts)
            access_points.append({"name": bridge.name, "counters": counters})
        _write(
            self._flows,
            {
                "format": FORMAT,
                "complete": complete,
                "time_ns": time.time_ns(),
                "access_points": access_points,
                "moves": self._moves,
            },
        )


def _write(path: Path, value: Any) -> None:
    write_text(path, json.dumps(value, indent=1) + "\n")


def main(arguments: list[str]) -> int:
    """Run the application; return the exit code."""
    if len(arguments) != 1:
        print("usage: python -m emulation.network.controller CONFIG.json", file=sys.stderr)
        return 2
    try:
        config = json.loads(Path(arguments[0]).read_text(encoding="utf-8"))
        port = int(config["port"])
    except (OSError, ValueError, LookupError) as error:
        print(f"controller: {arguments[0]}: {error}", file=sys.stderr)
        return 1
    options = [
        "--ofp-listen-host=127.0.0.1",
        f"--ofp-tcp-listen-port={port}",
        f"--{OPTION}={arguments[0]}",
    ]
    name = framework.__name__
    cfg.CONF(args=options, project=name, default_config_files=[])
    log.init_log()
    version = metadata.version(name.replace("_", "-"))
    logging.getLogger(__name__).info("controller: %s %s", name.replace("_", "-"), version)
    app_manager.AppManager.run_apps([MeshAccessPoints.__module__])
    return 0
