"""DDS: Eclipse Cyclone DDS, a participant at every node.

Sources: OMG, Data Distribution Service 1.4 and DDSI-RTPS 2.5; the package cyclonedds.  Participants
find each other by multicast, which reaches one hop, or by a list of all nodes' addresses over IP
routing.  Each writer sends to each matched reader's node; nobody relays.  Data is volatile: who
subscribes late gets nothing older.  The writer of a topic is made when a client advertises it
(`--set advertise=true`), or with the first event, which readers then miss.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Final

from nodeapp.addressing import address_of
from nodeapp.host import Host
from nodeapp.parameters import Param
from nodeapp.pubsub.base import EndedError, Environment, RefusedError
from nodeapp.pubsub.middleware.base import Middleware, MiddlewareParameters

MULTICAST: Final = (7400, 7401)
UNICAST: Final = (7410, 7411)
"""Ports of domain 0 and participant 0 (DDSI-RTPS 2.5, 9.6.2): discovery, data."""
DOMAIN: Final = 0


@dataclass(frozen=True)
class DdsParameters(MiddlewareParameters):
    """Parameters of `Dds`."""

    reliability: Annotated[
        str, Param("reliability of writers and readers", choices=("reliable", "best_effort"))
    ] = "reliable"
    spdp_interval: Annotated[
        float, Param("s between announcements of a participant; Cyclone's own: 8", low=0.1)
    ] = 30.0
    discovery: Annotated[
        str,
        Param(
            "list: of all nodes, over routing; multicast: one hop", choices=("list", "multicast")
        ),
    ] = "list"


class Dds(Middleware):
    """A participant with a writer and a reader per topic."""

    name = "dds"
    modules = ("cyclonedds", "nodeapp.pubsub.middleware.dds_sample")
    ports = (*MULTICAST, *UNICAST)
    needs_nodes = True
    Parameters = DdsParameters

    def __init__(self, host: Host, environment: Environment, parameters: DdsParameters) -> None:
        super().__init__(host, environment, parameters)
        self._domain: Any = None
        self._participant: Any = None
        self._participants: Any = None
        self._topics: dict[str, Any] = {}
        self._readers: dict[str, Any] = {}
        self._writers: dict[str, Any] = {}

    def _settings(self) -> str:
        multicast = str(self.parameters.discovery == "multicast").lower()
        peers = "".join(
            f'<Peer address="{address_of(node)}"/>'
            for node in range(1, self.environment.nodes + 1)
            if multicast == "false" and node != self.host.node_id
        )
        return (
            "<CycloneDDS><Domain><General><Interfaces>"
            f'<NetworkInterface address="{address_of(self.host.node_id)}"/>'
            f"</Interfaces><AllowMulticast>{multicast}</AllowMulticast></General><Discovery>"
            "<ParticipantIndex>0</ParticipantIndex>"
            "<MaxAutoParticipantIndex>0</MaxAutoParticipantIndex>"
            f"<SPDPInterval>{self.parameters.spdp_interval:g}s</SPDPInterval>"
            f"<Peers>{peers}</Peers></Discovery></Domain></CycloneDDS>"
        )

    async def open(self) -> None:
        from cyclonedds.builtin import BuiltinDataReader, BuiltinTopicDcpsParticipant
        from cyclonedds.core import DDSException
        from cyclonedds.domain import Domain, DomainParticipant

        try:
            self._domain = Domain(DOMAIN, self._settings())
            self._participant = DomainParticipant(DOMAIN)
        except DDSException as error:
            raise EndedError(f"dds cannot use UDP ports {UNICAST}: {error.msg}") from None
        self._participants = BuiltinDataReader(self._participant, BuiltinTopicDcpsParticipant)

    def ready(self) -> bool:
        whole = self.parameters.discovery == "list"
        nodes = self.environment.nodes
        return len(self._participants.read(nodes)) >= (nodes if whole else min(nodes, 2))

    def _quality(self) -> Any:
        from cyclonedds.core import Policy, Qos
        from cyclonedds.util import duration

        reliable = self.parameters.reliability == "reliable"
        return Qos(
            Policy.Reliability.Reliable(duration(seconds=0))
            if reliable
            else Policy.Reliability.BestEffort,
            Policy.History.KeepAll if reliable else Policy.History.KeepLast(1),
        )

    def _topic(self, name: str) -> Any:
        from cyclonedds.topic import Topic

        from nodeapp.pubsub.middleware.dds_sample import Sample

        if name not in self._topics:
            self._topics[name] = Topic(self._participant, name, Sample, qos=self._quality())
        return self._topics[name]

    def follow(self, topic: str) -> None:
        from cyclonedds.core import Listener
        from cyclonedds.sub import DataReader

        self._readers[topic] = DataReader(
            self._participant,
            self._topic(topic),
            qos=self._quality(),
            listener=Listener(on_data_available=self._take),
        )

    def _take(self, reader: Any) -> None:
        """Pass samples on; called by a thread of Cyclone's, also when a writer goes away."""
        for sample in reader.take(100) if reader is not None else ():
            if sample.sample_info.valid_data:
                self.arrived_in_thread(bytes(sample.payload))

    def unfollow(self, topic: str) -> None:
        del self._readers[topic]

    def advertise(self, topic: str) -> None:
        from cyclonedds.pub import DataWriter

        super().advertise(topic)
        if self._participant is not None and topic not in self._writers:
            self._writers[topic] = DataWriter(
                self._participant, self._topic(topic), qos=self._quality()
            )

    def carry(self, topic: str, payload: bytes) -> None:
        from cyclonedds.core import DDSException

        from nodeapp.pubsub.middleware.dds_sample import Sample

        self.advertise(topic)
        try:
            self._writers[topic].write(Sample(payload=list(payload)))
        except DDSException:
            self.counters["writes refused"] += 1  # the queue of a reliable writer is full

    def check_name(self, topic: str) -> None:
        unknown = set(topic) & set(" *?[]\"'#$") or not (topic.isascii() and topic.isprintable())
        if unknown or not topic or topic.startswith("DCPS"):
            what = "printable ASCII without spaces and *?[]\"'#$, not beginning with DCPS"
            raise RefusedError(f"{topic!r} is no topic of Cyclone DDS: {what}")

    def disconnect(self) -> None:
        self._readers.clear()
        self._writers.clear()
        self._participant = self._domain = None
