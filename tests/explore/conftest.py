"""One explorer for all tests in a browser: a server and its workers take longer to start than most tests to run.

Tests without a browser share a desk and a client by module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from isometer.explore import Desk
    from isometer.explore._server import Running
    from support.explorer import Tab


@pytest.fixture(scope="package")
def explorer() -> Iterator[Running]:
    from isometer.explore._server import running

    with running(port=0) as found:
        yield found


@pytest.fixture(scope="module")
def new_tab(browser: Any, explorer: Running) -> Callable[..., Tab]:
    from support.explorer import tabs_of

    return tabs_of(browser, explorer.url)


@pytest.fixture(scope="module")
def desk() -> Iterator[Desk]:
    from isometer.explore import Desk

    used = Desk(workers=2)
    yield used
    used.close()


@pytest.fixture(scope="module")
def client(desk: Desk) -> Any:
    from isometer.explore import make_app

    return make_app(desk=desk).server.test_client()
