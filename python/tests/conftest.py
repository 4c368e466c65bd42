import pytest
from support import Side


@pytest.fixture(params=["shm", "tcp"])
def pair(request):
    prefill, decode = Side("prefill-0", movers=(request.param,)), Side("decode-0", movers=(request.param,))
    prefill.fill(1)
    yield prefill, decode
    prefill.manager.stop()
    decode.manager.stop()
