"""Monitors of a wireless network: devices that show what a radio hears and sends.

They show data and path selection frames: those the radio sends, try by try, and those it decodes,
for others too, with the level at which it hears the sender.  Acknowledgements, RTS and CTS are left
out, and there are no beacons on the air.

With a folder for captures, each monitor gets a file there.  It is written here, because a recorder
that learnt of the monitor later would miss its first frames.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Final

from capture.files import PacketFile, pcap_header, pcap_record, shared_sizes
from capture.scan import RADIOTAP
from emulation.media import radiotap_wire
from emulation.media.control import ControlError
from emulation.media.device import DeviceError, Monitor
from emulation.media.radiotap_wire import OnAir, RadiotapLink
from emulation.radio.air import FrameJob, Transmission, jobs_of
from emulation.radio.delivery import Delivery
from emulation.radio.medium import BROADCAST
from emulation.wifi.network import Network
from emulation.wifi.packets import Packet
from emulation.wifi.radios import WlanChannel, WlanRadio

AD_HOC_BSSID: Final = bytes.fromhex("02ff00000001")
"""BSSID of ad hoc cells; outside the context of a BSS it is the wildcard."""
WILDCARD: Final = b"\xff" * 6


class MonitorCapture:
    """The capture of one monitor.  Raises OSError if its file cannot be made."""

    def __init__(self, folder: Path, name: str) -> None:
        path, number = folder / f"{name}.pcap", 1
        while path.exists():  # from a removed monitor of this name
            number += 1
            path = folder / f"{name}-{number}.pcap"
        self._file = PacketFile(path, shared_sizes(1), 0)
        self._file.write(pcap_header(RADIOTAP))
        self._file.flush()
        if self._file.error is not None:
            self._file.close()
            path.unlink(missing_ok=True)
            raise OSError(0, self._file.error, str(path))

    def write(self, record: bytes) -> bool:
        """Write a record that the monitor shows; return whether that succeeded."""
        lost = self._file.lost
        self._file.write(pcap_record(time.time_ns(), record))
        self._file.flush()
        return self._file.lost == lost

    def close(self) -> None:
        """Complete the file."""
        self._file.close()


class _Listener:
    """A monitor, with its capture if there is one."""

    def __init__(self, device: Monitor, capture: MonitorCapture | None) -> None:
        self.device = device
        self.capture = capture

    def close(self) -> None:
        """Remove the device, and complete the capture."""
        self.device.close()
        if self.capture is not None:
            self.capture.close()


class Monitors:
    """The monitors of a network, each with the radio that it listens to.

    `captures` is the folder for their captures, None for no captures.
    """

    def __init__(self, network: Network, captures: Path | None = None) -> None:
        self.drops = 0
        """Frames lost at a monitor or its capture."""
        self._network = network
        self._captures = captures
        self._of: dict[int, list[_Listener]] = {}
        self._on_air: dict[int, Transmission] = {}
        """By source: its last data frame or A-MPDU, ..."""
        self._numbers: dict[int, dict[FrameJob, int]] = {}
        """... the numbers of the frames in it, and ..."""
        self._sequence: dict[int, int] = {}
        """... the last number."""
        network.on_air, network.on_heard = self._sent, self._heard

    def add(self, radio: WlanRadio, name: str, pid: int) -> None:
        """Create a monitor in the namespace of a process.  Raises `ControlError`."""
        try:
            device = Monitor(pid, name)
        except DeviceError as error:
            raise ControlError(str(error)) from None
        self._of.setdefault(radio.index, []).append(_Listener(device, self._capture(radio, name)))
        self._network.listen(radio.index)

    def _capture(self, radio: WlanRadio, name: str) -> MonitorCapture | None:
        """Return the capture of a new monitor, named after its node too; None if it has none."""
        if self._captures is None:
            return None
        whole = name if name.startswith(radio.node) else f"{radio.node}-{name}"
        try:
            return MonitorCapture(self._captures, whole)
        except OSError as error:
            problem = f"{whole}: its capture cannot be written: {error.strerror}"
            print(problem, file=sys.stderr, flush=True)
            return None

    def names(self) -> list[tuple[str, int, WlanRadio]]:
        return [
            (monitor.device.interface, monitor.device.pid, self._network.radios[index])
            for index, monitors in self._of.items()
            for monitor in monitors
        ]

    def remove(self, name: str, pids: set[int]) -> None:
        """Remove the monitor `name` of one of the processes `pids`.  Raises `ControlError`."""
        for index, monitors in self._of.items():
            for monitor in monitors:
                if monitor.device.interface == name and monitor.device.pid in pids:
                    monitor.close()
                    monitors.remove(monitor)
                    if not monitors:
                        self._network.unlisten(index)
                    return
        raise ControlError(f"no such monitor: {name}")

    def close(self) -> None:
        for monitors in self._of.values():
            for monitor in monitors:
                monitor.close()
        self._of.clear()

    def _sent(self, channel: WlanChannel, frame: Transmission) -> None:
        if frame.acknowledges is not None or not isinstance(frame.job.frame, Packet):
            return
        source, jobs = frame.source, jobs_of(frame)
        self._on_air[source] = frame
        before = self._numbers.get(source, {})
        numbers = self._numbers[source] = {}
        for job in jobs:
            if job not in before:
                self._sequence[source] = self._sequence.get(source, -1) + 1
            numbers[job] = before.get(job, self._sequence[source])
            if self._of.get(source):
                self._show(channel, frame, job, source, None)

    def _heard(self, channel: WlanChannel, delivery: Delivery) -> None:
        frame = self._on_air.get(delivery.source)
        if frame is None:
            return
        for receiver in delivery.receivers:
            if self._of.get(receiver):
                level = channel.medium.table.signal_dbm(delivery.source, receiver)
                job = next((j for j in jobs_of(frame) if j.frame is delivery.frame), frame.job)
                self._show(channel, frame, job, receiver, level)

    def _show(
        self,
        channel: WlanChannel,
        frame: Transmission,
        job: FrameJob,
        radio: int,
        level: float | None,
    ) -> None:
        air = OnAir(
            frame.start,
            frame.coding.table.rate,
            channel.key.frequency_mhz,
            level,
            channel.medium.table.budget.noise_dbm,
            job.attempts > 1,
            self._numbers[frame.source].get(job, 0),
            round((frame.reserved - frame.end) * 1e6),
        )
        record = radiotap_wire.encode(job.frame, self._link(frame), air)
        for monitor in self._of[radio]:
            if monitor.capture is not None and not monitor.capture.write(record):
                self.drops += 1
            try:
                monitor.device.show(record)
            except OSError:
                self.drops += 1

    def _link(self, frame: Transmission) -> RadiotapLink:
        radios = self._network.radios
        source, destination = radios[frame.source], frame.destination
        receiver = WILDCARD
        if 0 <= destination < len(radios):
            receiver = radios[destination].mac
        elif destination != BROADCAST or frame.job.frame.frame:
            receiver = frame.job.frame.frame[:6] or WILDCARD
        if source.is_station:
            return RadiotapLink(source.mac, receiver, receiver, to_access_point=True)
        if source.mode == "master":
            return RadiotapLink(source.mac, receiver, source.mac, from_access_point=True)
        bssid = AD_HOC_BSSID if source.mode == "adhoc" else WILDCARD
        return RadiotapLink(source.mac, receiver, bssid)
