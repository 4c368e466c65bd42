"""The test kit: clusters in virtual time, driven by drawn commands and held to a model."""
import pytest
from hypothesis import HealthCheck, given, settings, strategies

import kvferry
from kvferry import Poll
from kvferry.testkit import Cluster

MOVERS = ["loopback-push", "loopback-pull", "loopback-landed"]


@pytest.mark.parametrize("mover", MOVERS)
def test_pages_move_in_virtual_time(mover):
    cluster = Cluster(mover=mover)
    sender = cluster.prefill().manager.open_sender(7001)
    receiver = cluster.decode().manager.open_receiver(7001, cluster.senders())
    cluster.prefill().item(1, 0)[:] = 7
    receiver.grant([5], tokens=16)
    sender.push([0], tokens=16, last=True)
    cluster.settle()
    assert sender.poll() == receiver.poll() == Poll.SUCCESS
    assert (cluster.decode().item(1, 5) == 7).all()


def test_pages_stay_held_while_a_write_may_land():
    cluster = Cluster(mover="loopback-landed")
    sender = cluster.prefill().manager.open_sender(1)
    receiver = cluster.decode().manager.open_receiver(1, cluster.senders())
    cluster.prefill().mover.hold()
    receiver.grant([5], tokens=16)
    sender.push([0], tokens=16, last=True)
    cluster.settle()
    receiver.abort("client went away")
    cluster.settle()
    assert isinstance(receiver.error, kvferry.Aborted) and not receiver.quiet
    cluster.prefill().mover.release()
    cluster.settle()
    assert receiver.poll() == Poll.FAILED and receiver.quiet


def test_a_room_of_a_crashed_node_says_so():
    cluster = Cluster()
    manager = cluster.prefill().manager
    sender = manager.open_sender(1)
    cluster.crash(cluster.prefill())
    for call in (sender.poll, sender.close, manager.counters, lambda: cluster.prefill().manager):
        with pytest.raises(kvferry.Refused, match="crashed"):
            call()
    cluster.restart(cluster.prefill())
    with pytest.raises(kvferry.Refused):
        sender.poll()
    assert cluster.prefill().manager.open_sender(1).poll() == Poll.BOOTSTRAPPING


def test_rules_of_the_net_hold_back_frames():
    cluster = Cluster()
    rule = cluster.net.add("drop", "GRANT")
    cluster.prefill().manager.open_sender(1)
    receiver = cluster.decode().manager.open_receiver(1, cluster.senders())
    receiver.grant([0], tokens=16)
    cluster.settle()
    assert cluster.net.dropped >= 1
    cluster.net.remove(rule)
    with pytest.raises(kvferry.UsageError, match="known: drop"):
        cluster.net.add("lose")


def test_memory_outside_of_a_node_is_refused():
    node = Cluster(pages=4, layers=2, aux_slots=3).prefill()
    assert len(node.aux(2)) == 64 and len(node.item(1, 3)) == 1024
    for outside in (lambda: node.aux(3), lambda: node.item(2, 0), lambda: node.item(0, 4)):
        with pytest.raises(kvferry.UsageError, match=" of "):
            outside()


# Each drawn command is (what, which room). The model: a room succeeds exactly when all of it was said and nobody ended
# it before; a state never moves on from an end; a success moved the right bytes.
COMMANDS = strategies.lists(strategies.tuples(
    strategies.sampled_from(["open sender", "open receiver", "grant", "push", "abort sender", "abort receiver", "settle",
                             "crash prefill"]),
    strategies.integers(0, 2)), max_size=25)


class Model:
    def __init__(self, mover):
        self.cluster = Cluster(mover=mover)
        self.rooms = {}     # (side, number) -> Room
        self.said = set()   # (what, number)
        self.ends = {}      # (side, number) -> the end that was seen
        self.ended = set()  # numbers that somebody aborted
        self.crashed = False
        for page in range(3):
            self.cluster.prefill().item(0, page)[:] = page + 1

    def apply(self, what, number):
        if what == "settle":
            self.cluster.settle()
        elif what == "crash prefill":
            self.crash()
        elif what.startswith("open"):
            self.open(what.split()[1], number)
        else:
            self.room_command(what, number)
        self.look()

    def crash(self):
        if not self.crashed:
            self.cluster.crash(self.cluster.prefill())
            self.crashed = True
            self.rooms = {key: room for key, room in self.rooms.items() if key[0] == "receiver"}

    def open(self, side, number):
        if (side, number) in self.rooms or ("open " + side, number) in self.said:
            return
        if side == "receiver":
            room = self.cluster.decode().manager.open_receiver(number, self.cluster.senders())
        elif self.crashed:
            return
        else:
            room = self.cluster.prefill().manager.open_sender(number)
        self.rooms[side, number] = room
        self.said.add(("open " + side, number))

    def room_command(self, what, number):
        side = {"grant": "receiver", "push": "sender"}.get(what) or what.split()[1]
        room = self.rooms.get((side, number))
        if room is None or (what, number) in self.said or room.poll() in (Poll.FAILED, Poll.SUCCESS):
            return
        if what == "grant":
            room.grant([10 + number], tokens=16)
        elif what == "push":
            room.push([number], tokens=16, last=True)
        else:
            room.abort("drawn")
            self.ended.add(number)
        self.said.add((what, number))

    def look(self):
        for key, room in self.rooms.items():
            poll = room.poll()
            before = self.ends.get(key)
            assert before is None or before == poll, f"{key} was {before!r} and is {poll!r}"
            if poll in (Poll.FAILED, Poll.SUCCESS):
                self.ends[key] = poll
                assert (room.error is None) == (poll == Poll.SUCCESS)
                assert room.quiet, "an end means that no byte can move"

    def finish(self):
        self.cluster.settle()
        self.look()
        for (side, number), room in self.rooms.items():
            whole = {("open sender", number), ("open receiver", number), ("grant", number), ("push", number)} <= self.said
            if whole and number not in self.ended and not self.crashed:
                assert room.poll() == Poll.SUCCESS, f"{side} {number}: {room.error}"
            if side == "receiver" and room.poll() == Poll.SUCCESS:
                assert (self.cluster.decode().item(0, 10 + number) == number + 1).all()
        if self.crashed:
            self.cluster.advance(3600)  # every wait has a deadline
        for key, room in self.rooms.items():
            if self.crashed:
                assert room.poll() in (Poll.FAILED, Poll.SUCCESS), f"{key} hangs: {room!r}"


@pytest.mark.parametrize("mover", MOVERS)
@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(commands=COMMANDS)
def test_drawn_commands_keep_to_the_model(mover, commands):
    model = Model(mover)
    for command in commands:
        model.apply(*command)
    model.finish()
