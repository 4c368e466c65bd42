"""The package against two real managers on loopback: bytes, endings, completion, errors."""
import asyncio
import gc
import pickle
import select
import subprocess
import sys
import threading
import time

import numpy
import pytest
from support import (AUX_BYTES, AUX_SLOTS, ITEM_BYTES, LAYERS, PAGE_REGION, PAGES, Side, layout, open_pair,
                     until)

import kvferry
from kvferry import Poll


def move(prefill, decode, room, source, target, tokens):
    sender, receiver = open_pair(prefill, decode, room)
    receiver.grant(target, tokens)
    sender.push(source, tokens, last=True)
    return sender, receiver


def test_pages_arrive_in_the_order_that_decode_chose(pair):
    prefill, decode = pair
    source, target = [3, 4, 9], [40, 2, 7]
    sender, receiver = move(prefill, decode, 7001, source, target, 40)
    info = receiver.result(10)
    assert sender.result(10).poll == Poll.SUCCESS
    assert (decode.pages[:, target] == prefill.pages[:, source]).all()
    others = [page for page in range(PAGES) if page not in target]
    assert not decode.pages[:, others].any(), "a page that was not lent changed"
    assert info.tokens == 40 and info.pages == 3 and info.bytes == 3 * LAYERS * ITEM_BYTES
    assert info.mover in ("shm", "tcp") and info.quiet and receiver.error is None


def test_chunks_come_back_one_by_one(pair):
    prefill, decode = pair
    sender, receiver = open_pair(prefill, decode, 1)
    receiver.grant(numpy.arange(10, 14, dtype=numpy.int64), 64)
    for chunk in range(4):
        sender.push(numpy.array([chunk], dtype=numpy.uint32), 16, last=chunk == 3)
    receiver.result(10)
    sender.result(10)
    events = []
    until(lambda: events.extend(prefill.manager.take_events()) or len(events) >= 5)
    returned = [event.chunk for event in events if event.kind == kvferry.EventKind.CHUNK_RETURNED]
    assert returned == [0, 1, 2, 3] and events[-1].kind == kvferry.EventKind.TERMINAL
    assert (decode.pages[:, 10:14] == prefill.pages[:, 0:4]).all()


def test_numpy_indices_may_be_strided_and_of_any_integer_type(pair):
    prefill, decode = pair
    for room, kind in enumerate((numpy.int8, numpy.uint16, numpy.int32, numpy.uint64)):
        source = numpy.arange(0, 12, dtype=kind)[::4]
        sender, receiver = move(prefill, decode, room, source, [20, 21, 22], 48)
        receiver.result(10)
        sender.result(10)
        assert (decode.pages[:, 20:23] == prefill.pages[:, [0, 4, 8]]).all()


def test_abort_reaches_both_sides_with_its_reason(pair):
    prefill, decode = pair
    sender, receiver = open_pair(prefill, decode, 5)
    receiver.grant([1], 16)
    until(lambda: sender.poll() == Poll.WAITING_FOR_INPUT)
    sender.abort("client went away")
    assert sender.wait(10) == Poll.FAILED and receiver.wait(10) == Poll.FAILED
    with pytest.raises(kvferry.Aborted, match="client went away") as caught:
        receiver.result(0)
    assert "prefill-0" in caught.value.what and caught.value.next == kvferry.Next.NEW_ROOM
    assert receiver.quiet


def test_reject_carries_status_and_text(pair):
    prefill, decode = pair
    sender, receiver = open_pair(prefill, decode, 6)
    receiver.grant([1], 16)
    until(lambda: sender.poll() == Poll.WAITING_FOR_INPUT)
    sender.reject(413, "prompt too long")
    with pytest.raises(kvferry.Rejected, match="prompt too long") as caught:
        receiver.result(10)
    assert caught.value.status == 413


def test_result_says_that_the_room_goes_on(pair):
    prefill, decode = pair
    sender, receiver = open_pair(prefill, decode, 8)
    with pytest.raises(kvferry.Timeout, match="has not ended"):
        receiver.result(0.01)
    with pytest.raises(TimeoutError):
        sender.result(0)


def test_states_are_a_view_and_polls_agree_with_it(pair):
    prefill, decode = pair
    pairs = [move(prefill, decode, room, [room], [room], 16) for room in range(8)]
    rooms = [receiver for _, receiver in pairs]
    for sender, receiver in pairs:
        receiver.result(10)
        sender.result(10)
    states, slots = decode.manager.states, [room.slot for room in rooms]
    assert (states[slots] & 0xFF == int(Poll.SUCCESS)).all()
    assert not states.flags.writeable and not states.flags.owndata
    handles = numpy.array([room.handle for room in rooms], dtype=numpy.uint64)
    assert (states[slots] >> 8 == handles >> 32).all()
    assert decode.manager.poll_many(handles).tolist() == [int(room.poll()) for room in rooms]
    rooms[3].close()
    until(lambda: decode.manager.poll_many(handles)[3] == int(Poll.STALE))
    with pytest.raises(kvferry.UsageError, match="same length"):
        decode.manager.poll_many(handles, numpy.empty(3, dtype=numpy.uint8))


def test_the_descriptor_becomes_readable_with_the_end(pair):
    prefill, decode = pair
    _kept = move(prefill, decode, 2, [0], [0], 16)
    ready, _, _ = select.select([decode.manager], [], [], 10)
    assert ready == [decode.manager]


def test_await_in_asyncio(pair):
    prefill, decode = pair

    async def run():
        rooms = [open_pair(prefill, decode, room) for room in range(5)]

        async def one(number, sender, receiver):
            receiver.grant([number], 16)
            sender.push([number], 16, last=True)
            return (await receiver).poll, (await sender).poll

        return await asyncio.wait_for(asyncio.gather(*(one(i, *room) for i, room in enumerate(rooms))), 10)

    assert asyncio.run(run()) == [(Poll.SUCCESS, Poll.SUCCESS)] * 5


def test_a_wait_leaves_the_interpreter_to_others(pair):
    prefill, decode = pair
    sender, receiver = open_pair(prefill, decode, 3)
    turns = 0

    def end():
        nonlocal turns
        for turns in range(1, 101):
            time.sleep(0)
        sender.abort("enough")

    other = threading.Thread(target=end)
    receiver.grant([0], 16)
    until(lambda: sender.poll() == Poll.WAITING_FOR_INPUT)
    other.start()
    assert receiver.wait(10) == Poll.FAILED and turns == 100
    other.join()


def test_a_collected_room_is_closed(pair):
    prefill, decode = pair
    sender, receiver = open_pair(prefill, decode, 4)
    receiver.grant([0], 16)
    until(lambda: sender.poll() == Poll.WAITING_FOR_INPUT)
    del receiver
    gc.collect()
    assert sender.wait(10) == Poll.FAILED


def test_a_page_is_lent_once(pair):
    prefill, decode = pair
    first, second = open_pair(prefill, decode, 1), open_pair(prefill, decode, 2)
    first[1].grant([5], 16)
    with pytest.raises(kvferry.Refused):
        second[1].grant([5], 16)
        second[1].result(10)


@pytest.mark.parametrize("pages", [[-1], [2**32], [2**70], numpy.array([[1]]), numpy.array([1.0])])
def test_page_lists_that_cannot_be_are_named(pair, pages):
    _, receiver = open_pair(*pair, 1)
    with pytest.raises(kvferry.UsageError, match="pages"):
        receiver.grant(pages, 16)


def test_adopted_memory_of_numpy_moves_too():
    size = PAGE_REGION + AUX_SLOTS * AUX_BYTES
    prefill = Side("prefill-0", movers=("tcp",), memory=numpy.zeros(size, dtype=numpy.uint8))
    decode = Side("decode-0", movers=("tcp",), memory=bytearray(size))
    prefill.fill(2)
    with prefill.manager, decode.manager:
        sender, receiver = move(prefill, decode, 1, [0, 1], [9, 8], 32)
        receiver.result(10)
        sender.result(10)
        assert (decode.pages[:, [9, 8]] == prefill.pages[:, :2]).all()


@pytest.mark.parametrize("memory, why", [(bytes(16), "writable"), (object(), "__dlpack__")],
                         ids=["read-only", "no buffer"])
def test_memory_that_cannot_be_written_is_refused(memory, why):
    with pytest.raises(kvferry.UsageError, match=why):
        kvferry.Region(memory)


def test_settings_are_judged_by_name_and_value():
    with pytest.raises(kvferry.UsageError, match="deadlines.drain"):
        kvferry.Manager(layout(), [bytearray(1 << 18)], deadlines={"drian": 1.0})
    with pytest.raises(kvferry.UsageError, match="limits.rooms"):
        kvferry.Manager(layout(), [bytearray(1 << 18)], limits={"rooms": 0})


def test_errors_survive_pickling():
    error = kvferry.PeerLost("room 1", "connection reset", who=kvferry.Who.PEER, next=kvferry.Next.NEW_ROOM)
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is kvferry.PeerLost and str(again) == str(error) and again.next == kvferry.Next.NEW_ROOM


def test_the_registry_finds_what_a_rank_holds():
    with kvferry.RegistryServer("127.0.0.1:0") as server, kvferry.Registry(server.endpoint) as registry:
        with Side("prefill-0").manager as manager:
            registry.hold("model-a", 0, manager.endpoint, manager.incarnation, name="prefill-0")
            assert registry.wait_registered(10)
            (found,) = registry.resolve("model-a", 10)
            assert (found.endpoint, found.incarnation) == (manager.endpoint, manager.incarnation)
            assert registry.status.registered == 1
            with pytest.raises(kvferry.Timeout, match="model-b"):
                registry.resolve("model-b", 0.2)


def test_import_is_quick_and_leaves_numpy_alone():
    # CPU time: other programs of a busy machine do not count.
    code = ("import sys, time; begin = time.process_time(); import kvferry; took = time.process_time() - begin; "
            "assert 'numpy' not in sys.modules, 'numpy was imported'; print(took)")
    took = min(float(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout)
               for _ in range(5))
    assert took < 0.2
