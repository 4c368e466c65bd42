// What arriving frames do, and which frame is sent next. See tcp_transport.h.
#include "transport/tcp/tcp_transport.h"

namespace kvferry::transport::tcp {

void TcpMover::out_of_turn(Lane& lane, const char* frame) {
  ++stats_.bad_frames;
  lane.fail({Code::kBadMessage, Who::kPeer, Next::kNewRoom, 0, "tcp stream",
             std::string("a ") + frame + " frame that has no place here"});
}

void TcpMover::on_hello(Lane& lane, const HelloFrame& hello) {
  if (lane.dialled() || lane.phase != Lane::Phase::kGreeting) return out_of_turn(lane, "HELLO");
  lane.cookie = hello.from;
  lane.index = hello.lane;
  if (hello.version != kFrameVersion) {
    return refuse(lane, WelcomeFrame::Status::kVersion,
                  "the peer speaks version " + std::to_string(hello.version) +
                      " of the tcp frames, this side version " + std::to_string(kFrameVersion));
  }
  if (hello.to != cookie_) {
    return refuse(lane, WelcomeFrame::Status::kOtherLife, "the peer looks for another life of this address");
  }
  if (hello.lanes > kMaxStreams) {
    return refuse(
        lane, WelcomeFrame::Status::kFull,
        "the peer wants " + std::to_string(hello.lanes) + " streams; at most " + std::to_string(kMaxStreams));
  }
  if (Peer* peer = live_peer(hello.from); peer != nullptr) return claim(*peer, lane);
  lane.phase = Lane::Phase::kUnclaimed;  // until add_peer(); nothing more is read from it
  lane.since = ticks_;
}

void TcpMover::on_welcome(Lane& lane, const WelcomeFrame& welcome) {
  Peer* peer = lane.peer ? peer_of(*lane.peer) : nullptr;
  if (!lane.dialled() || lane.phase != Lane::Phase::kGreeting || peer == nullptr)
    return out_of_turn(lane, "WELCOME");
  const auto refused = [&](std::string why) {
    lane.fail({Code::kRefused, Who::kPeer, Next::kNewRoom, 0, "tcp stream", std::move(why)});
  };
  switch (welcome.status) {
    case WelcomeFrame::Status::kOk:
      if (welcome.from != peer->description.cookie)
        return refused("another life of the peer answers at its address");
      return greeted(*peer, lane);
    case WelcomeFrame::Status::kOtherLife: return refused("another life of the peer answers at its address");
    case WelcomeFrame::Status::kFenced: return refused("the peer has fenced this side");
    case WelcomeFrame::Status::kVersion:
      return refused("the peer speaks version " + std::to_string(welcome.version) +
                     " of the tcp frames, this side version " + std::to_string(kFrameVersion));
    case WelcomeFrame::Status::kFull: return refused("the peer takes no more streams of this side");
  }
}

bool TcpMover::on_write(Lane& lane, const WriteFrame& frame) {
  Peer* peer = lane.peer ? peer_of(*lane.peer) : nullptr;
  if (lane.dialled() || lane.phase != Lane::Phase::kOpen || peer == nullptr) {
    out_of_turn(lane, "WRITE");
    return false;
  }
  const PieceGroup group = frame.group();
  std::string detail;
  Refusal refusal = loans_.judge(frame.ticket, peer->id, Access::kWrite, std::span(&group, 1), &detail);
  if (refusal == Refusal::kNone) {
    refusal = peer->inbox.begin(frame, static_cast<std::uint32_t>(bytes_of(group)));
    if (refusal == Refusal::kNone) return true;
  }
  peer->inbox.forget(frame.sequence);
  ++stats_.frames_refused;
  reject(lane, frame.sequence, refusal, std::move(detail));
  return false;
}

void TcpMover::on_write_end(Lane& lane, const WriteFrame& frame, bool placed) {
  const std::uint64_t payload = bytes_of(frame.group());
  if (!placed) {
    stats_.bytes_discarded += payload;
    return;
  }
  ++stats_.frames_placed;
  stats_.bytes_placed += payload;
  Peer* peer = lane.peer ? peer_of(*lane.peer) : nullptr;
  if (peer == nullptr || !peer->inbox.placed(frame, static_cast<std::uint32_t>(payload))) return;
  Event& arrived = push(Event::Kind::kArrived);
  arrived.peer = peer->id;
  arrived.loan = frame.ticket.loan;
  arrived.bytes = frame.op_bytes;
  arrived.notice = frame.notice;
}

void TcpMover::reject(Lane& lane, std::uint64_t sequence, Refusal refusal, std::string text) {
  if (lane.queued() >= options_.limits.rejects_per_lane) {
    ++stats_.rejects_untold;
    return;
  }
  lane.send(encode(RejectFrame{sequence, refusal, std::move(text)}));
  schedule(lane);
}

void TcpMover::on_reject(Lane& lane, const RejectFrame& frame) {
  Peer* peer = lane.peer ? peer_of(*lane.peer) : nullptr;
  if (!lane.dialled() || lane.phase != Lane::Phase::kOpen || peer == nullptr)
    return out_of_turn(lane, "REJECT");
  ++stats_.rejects_received;
  OutOp* op = peer->outbox.find(frame.sequence);
  if (op == nullptr) {
    ++stats_.rejects_late;  // completed: the kernel had all of it; the other side never says Arrived
    return;
  }
  fail_op(*peer, *op,
          error_of(frame.refusal, "tcp operation " + std::to_string(op->id.value), op->ticket, frame.text));
}

bool TcpMover::fill(Lane& lane) {
  Peer* peer = lane.peer ? peer_of(*lane.peer) : nullptr;
  if (!lane.dialled() || peer == nullptr) return false;
  Slice slice;
  std::vector<std::byte> frame;
  OutOp* op = peer->outbox.cut(slice, frame);
  if (op == nullptr) return false;
  ++op->frames_queued;
  op->lanes |= 1U << lane.index;
  lane.send(std::move(frame), op->sequence, std::move(slice));
  return true;
}

void TcpMover::on_sent(Lane& lane, std::uint64_t sequence, std::uint64_t payload) {
  if (sequence == kNoSequence) return;
  ++stats_.frames_sent;
  stats_.bytes_sent += payload;
  Peer* peer = lane.peer ? peer_of(*lane.peer) : nullptr;
  OutOp* op = peer == nullptr ? nullptr : peer->outbox.find(sequence);
  if (op == nullptr) return;
  --op->frames_queued;
  if (op->ended()) end_op(*peer, sequence);
}

}  // namespace kvferry::transport::tcp
