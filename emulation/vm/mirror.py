"""Where Debian packages come from: the machine's own apt settings, if they are Debian's."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from emulation.vm.inputs import SUITE
from emulation.vm.tools import KEYRING

_SIGNED: Final = f"[signed-by={KEYRING}]"  # apt of other distributions does not trust it by itself
DEFAULT: Final = (
    f"deb {_SIGNED} http://deb.debian.org/debian {SUITE} main",
    f"deb {_SIGNED} http://deb.debian.org/debian-security {SUITE}-security main",
)
SUITES: Final = (SUITE, f"{SUITE}-updates", f"{SUITE}-security")
PASSED_ON: Final = re.compile(
    r"Acquire::(https?|ftp|Check-Valid-Until|Check-Date|Retries|ForceIPv[46])\b.*"
)


def sources(apt: Path = Path("/etc/apt")) -> tuple[str, ...]:
    """Return one-line apt sources of the suite: the machine's mirror, or Debian's own."""
    texts = [apt / "sources.list", *sorted((apt / "sources.list.d").glob("*"))]
    sources: list[str] = []
    for path in texts:
        if not path.is_file() or path.suffix not in {".list", ".sources"}:
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        parse = _deb822 if path.suffix == ".sources" else _one_line
        sources += [line for line in parse(text) if line not in sources]
    return tuple(sources) if any(f" {SUITE} " in line for line in sources) else DEFAULT


def options() -> tuple[str, ...]:
    """Return the machine's apt settings for the network: proxies, certificates, checks."""
    done = subprocess.run(
        ["apt-config", "dump"], capture_output=True, text=True, check=False, timeout=30
    )
    return tuple(line for line in done.stdout.splitlines() if PASSED_ON.fullmatch(line))


def _one_line(text: str) -> Iterator[str]:
    for line in text.splitlines():
        match = re.match(r"deb\s+(?:\[([^]]*)\]\s+)?(\S+)\s+(\S+)\s+(.*)", line)
        if match and match[3] in SUITES and "main" in match[4].split():
            key = re.search(r"signed-by=(\S+)", match[1] or "")
            if key is None or "debian-archive" in key[1]:
                yield f"deb {match[2]} {match[3]} main"


def _deb822(text: str) -> Iterator[str]:
    for stanza in re.split(r"\n\s*\n", text):
        fields = {
            match[1].lower(): match[2]
            for match in re.finditer(r"^([A-Za-z-]+):[ \t]*(.*)$", stanza, re.MULTILINE)
        }
        debian = "debian-archive" in fields.get("signed-by", "debian-archive")
        enabled = fields.get("enabled", "yes").lower() != "no"
        if not (debian and enabled and "deb" in fields.get("types", "").split()):
            continue
        if "main" not in fields.get("components", "").split():
            continue
        for uri in fields.get("uris", "").split():
            for suite in fields.get("suites", "").split():
                if suite in SUITES:
                    yield f"deb {uri} {suite} main"
