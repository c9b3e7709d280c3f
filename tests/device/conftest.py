# SPDX-License-Identifier: Apache-2.0
"""What the tests of devices share: a driver for machines without one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fake_cuda import Machine, fake, missing

from ngmlir.runtime import ptxas, targets


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    """Two GPUs behind a driver that notes what a program may not do; the test ends with the first such thing."""
    if reason := missing():
        pytest.skip(reason)
    made = Machine()

    def assemble(ptx: str, arch: str) -> ptxas.Report:
        report = original(ptx, arch)
        made.cubins[report.cubin] = ptx
        return report

    original = ptxas.assemble
    monkeypatch.setattr(ptxas, "assemble", assemble)
    monkeypatch.setattr(targets, "_opened", {})
    with fake().using(made):
        yield made
    assert made.violations == []
