#include "sim/net.h"

#include <algorithm>

#include "sim/world.h"

namespace kvferry::sim {
namespace {
using std::chrono::milliseconds;
using std::chrono::seconds;

SimEvent event(SimEvent::Kind kind, std::uint32_t a, std::uint32_t b = 0) {
  SimEvent e;
  e.kind = kind;
  e.a = a;
  e.b = b;
  return e;
}

Error link_error(const char* why) {
  return Error{Code::kTransport, Who::kTransport, Next::kRetry, 104, "sim link", why};
}
}  // namespace

Net::Net(World& world) : world_(world), nodes_(world.scenario().shape.nodes()) {
  by_id_.resize(nodes_);
  cut_until_.resize(static_cast<std::size_t>(nodes_) * nodes_);
}

Duration Net::hop() {
  const Duration l = world_.scenario().latency;
  return world_.between(l / 2, l * 2);
}

bool Net::cut(std::uint32_t a, std::uint32_t b) const {
  return cut_until_[static_cast<std::size_t>(std::min(a, b)) * nodes_ + std::max(a, b)] > world_.now();
}

void Net::birth(std::uint32_t node) { by_id_[node].clear(); }

LinkId Net::new_end(std::uint32_t node, std::uint32_t link, std::uint32_t side) {
  by_id_[node].emplace_back(link, side);
  return LinkId{static_cast<std::uint32_t>(by_id_[node].size())};
}

void Net::dial(std::uint32_t node, EndpointId endpoint) {
  const std::uint32_t target = endpoint.value;
  SimEvent failed = event(SimEvent::Kind::kDialFailed, node, endpoint.value);
  failed.c = world_.node(node).life;
  if (target >= nodes_ || !world_.node(target).up) return world_.plan(hop(), failed);
  if (cut(node, target)) return world_.plan(seconds(1), failed);
  const auto index = static_cast<std::uint32_t>(links_.size());
  Link l;
  l.endpoint = endpoint;
  l.ends[0].node = node;
  l.ends[0].life = world_.node(node).life;
  l.ends[1].node = target;
  l.ends[1].life = world_.node(target).life;
  l.ends[0].id = new_end(node, index, 0);
  l.ends[1].id = new_end(target, index, 1);
  links_.push_back(l);
  const Duration there = hop();
  world_.plan(there, event(SimEvent::Kind::kLinkUp, index, 1));
  world_.plan(there + hop(), event(SimEvent::Kind::kLinkUp, index, 0));
}

void Net::on_up(std::uint32_t index, std::uint32_t side) {
  Link& l = links_[index];
  End& e = l.ends[side];
  const SimNode& n = world_.node(e.node);
  if (!n.up || n.life != e.life || e.gone) return;
  const EndpointId endpoint = l.endpoint;
  if (l.broken) {
    e.gone = true;
    if (side == 0) world_.feed(e.node, core::in::DialFailed{endpoint, link_error("connection reset")});
    return;
  }
  e.up = true;
  const LinkId id = e.id;
  world_.feed(e.node, core::in::LinkUp{id, side == 0 ? endpoint : EndpointId{~0U}, side == 0});
}

void Net::on_down(std::uint32_t index, std::uint32_t side) {
  End& e = links_[index].ends[side];
  const SimNode& n = world_.node(e.node);
  if (!n.up || n.life != e.life || !e.up || e.gone) return;
  e.gone = true;
  world_.feed(e.node, core::in::LinkDown{e.id, link_error("connection reset")});
}

void Net::break_link(std::uint32_t index, Duration tell0, Duration tell1) {
  Link& l = links_[index];
  if (l.broken) return;
  l.broken = true;
  if (tell0 >= Duration{0}) world_.plan(tell0, event(SimEvent::Kind::kLinkDown, index, 0));
  if (tell1 >= Duration{0}) world_.plan(tell1, event(SimEvent::Kind::kLinkDown, index, 1));
}

void Net::close(std::uint32_t node, LinkId id) {
  if (id.value == 0 || id.value > by_id_[node].size()) return;
  const auto [link, side] = by_id_[node][id.value - 1];
  links_[link].ends[side].gone = true;
  const Duration other = hop();
  break_link(link, side == 0 ? Duration{-1} : other, side == 0 ? other : Duration{-1});
}

void Net::crash(std::uint32_t node, bool silent) {
  for (std::uint32_t i = 0; i < links_.size(); ++i) {
    for (std::uint32_t side = 0; side < 2; ++side) {
      const End& e = links_[i].ends[side];
      if (e.node != node || e.life != world_.node(node).life) continue;
      const Duration told = silent ? world_.between(seconds(4), seconds(8)) : hop();
      break_link(i, side == 0 ? Duration{-1} : told, side == 0 ? told : Duration{-1});
    }
  }
}

std::uint32_t Net::take_frame() {
  if (free_frames_.empty()) {
    free_frames_.push_back(static_cast<std::uint32_t>(frames_.size()));
    frames_.emplace_back();
  }
  const std::uint32_t slot = free_frames_.back();
  free_frames_.pop_back();
  return slot;
}

void Net::send(std::uint32_t node, LinkId id, const wire::Message& message) {
  if (id.value == 0 || id.value > by_id_[node].size()) return;
  const auto [link, side] = by_id_[node][id.value - 1];
  const End& from = links_[link].ends[side];
  if (links_[link].broken || from.gone || !from.up) return;
  if (world_.roll(Fault::kDrop)) return;
  const auto bytes = encoder_.encode(message);
  plan_frame(link, 1 - side, bytes, false);
  if (world_.roll(Fault::kDuplicate)) plan_frame(link, 1 - side, bytes, false);
  if (world_.roll(Fault::kStrayFrame)) plan_frame(link, 1 - side, bytes, true);
  if (world_.roll(Fault::kBadFrame)) {
    std::array<std::byte, 40> garbage{};
    for (std::byte& b : garbage) b = static_cast<std::byte>(world_.rng().below(256));
    plan_frame(link, 1 - side, garbage, false);
  }
  if (world_.roll(Fault::kBadPrefix)) send_bad_prefix(link, 1 - side);
}

void Net::plan_frame(std::uint32_t link, std::uint32_t side, std::span<const std::byte> payload, bool stray) {
  const std::uint32_t slot = take_frame();
  frames_[slot].bytes.clear();
  control::append_frame(frames_[slot].bytes, payload);
  plan_bytes(slot, link, side, stray);
}

// What is no kvferry stream: the reader can never find its way in it again.
void Net::send_bad_prefix(std::uint32_t link, std::uint32_t side) {
  const std::uint32_t slot = take_frame();
  auto& bytes = frames_[slot].bytes;
  bytes.assign(world_.rng().between(control::kFramePrefix, 60), std::byte{0});
  for (std::byte& b : bytes) b = static_cast<std::byte>(world_.rng().below(256));
  bytes[control::kFramePrefix - 1] = static_cast<std::byte>(world_.rng().between(1, 255));
  plan_bytes(slot, link, side, false);
}

void Net::plan_bytes(std::uint32_t slot, std::uint32_t link, std::uint32_t side, bool stray) {
  Frame& f = frames_[slot];
  Link& l = links_[link];
  f.link = link;
  f.side = side;
  f.stray = stray;
  f.begun = false;
  f.cut = world_.roll(Fault::kTornFrame) ? world_.rng().between(1, f.bytes.size() - 1) : 0;
  f.from_node = l.ends[1 - side].node;
  f.to_node = l.ends[side].node;
  TimePoint at = world_.now() + hop();
  if (stray) {
    at += world_.between(milliseconds(100), seconds(8));
  } else if (world_.roll(Fault::kDelay)) {
    at += world_.between(milliseconds(10), seconds(5));
  } else if (world_.roll(Fault::kReorder)) {
    at += world_.between(Duration{0}, hop() * 20);
  } else {
    at = std::max({at, l.last[side] + Duration{1}, l.clogged_until});
    l.last[side] = at;
  }
  world_.plan(at - world_.now(), event(SimEvent::Kind::kFrame, slot));
}

bool Net::usable(const Link& l, std::uint32_t side) const {
  const End& e = l.ends[side];
  const SimNode& n = world_.node(e.node);
  return !l.broken && e.up && !e.gone && n.up && n.life == e.life;
}

// The link that a frame comes in by.
std::uint32_t Net::route(const Frame& f, std::uint32_t& side) const {
  if (cut(f.from_node, f.to_node)) return ~0U;
  side = f.side;
  if (usable(links_[f.link], side)) return f.link;
  if (!f.stray) return ~0U;
  for (auto i = static_cast<std::uint32_t>(links_.size()); i-- > 0;) {
    for (std::uint32_t s = 0; s < 2; ++s) {
      const Link& l = links_[i];
      if (l.ends[s].node != f.to_node || l.ends[1 - s].node != f.from_node || !usable(l, s)) continue;
      side = s;
      return i;
    }
  }
  return ~0U;
}

void Net::on_frame(std::uint32_t slot) {
  Frame& f = frames_[slot];
  std::uint32_t side = f.side;
  if (f.begun) {  // half of it is in the stream: the rest comes, or the connection is over
    if (usable(links_[f.link], side) && cut(f.from_node, f.to_node)) break_link(f.link, hop(), hop());
    if (usable(links_[f.link], side)) return deliver(slot, f.link, side);
    return lose(slot);
  }
  const std::uint32_t link = route(f, side);
  if (link == ~0U) return lose(slot);
  f.link = link;  // a stray frame takes the later link
  f.side = side;
  deliver(slot, link, side);
}

// A frame that never arrives, and those that waited behind its second piece.
void Net::lose(std::uint32_t slot) {
  End& e = links_[frames_[slot].link].ends[frames_[slot].side];
  free_frames_.push_back(slot);
  if (e.torn != slot) return;
  e.torn = kNoFrame;
  free_frames_.insert(free_frames_.end(), e.waiting.begin(), e.waiting.end());
  e.waiting.clear();
}

void Net::deliver(std::uint32_t slot, std::uint32_t link, std::uint32_t side) {
  End& e = links_[link].ends[side];
  Frame& f = frames_[slot];
  if (e.torn != kNoFrame && e.torn != slot) return e.waiting.push_back(slot);
  const std::vector<std::byte> bytes =
      std::move(f.bytes);  // an engine that answers may move frames_ and links_
  const std::span<const std::byte> all(bytes);
  if (f.cut > 0 && !f.begun) {
    f.begun = true;
    e.torn = slot;
    f.bytes = bytes;
    world_.plan(world_.between(std::chrono::microseconds(1), milliseconds(40)),
                event(SimEvent::Kind::kFrame, slot));
    return read(link, side, all.first(frames_[slot].cut), all);
  }
  e.torn = kNoFrame;
  const std::vector<std::uint32_t> waiting = std::move(e.waiting);
  e.waiting.clear();
  const std::size_t from = f.begun ? f.cut : 0;
  ++world_.coverage().frames;
  read(link, side, all.subspan(from), all);
  free_frames_.push_back(slot);
  for (const std::uint32_t next : waiting) on_frame(next);
}

// Bytes come in. `sent`: the frame that they are part of; the reader must give back just that.
void Net::read(std::uint32_t link, std::uint32_t side, std::span<const std::byte> piece,
               std::span<const std::byte> sent) {
  using Status = control::FrameReader::Status;
  const LinkId id = links_[link].ends[side].id;
  const std::uint32_t node = links_[link].ends[side].node;
  control::FrameReader& reader = links_[link].ends[side].reader;
  std::copy(piece.begin(), piece.end(), reader.space(piece.size()).begin());
  reader.filled(piece.size());
  std::span<const std::byte> frame;
  const Status status = reader.next(frame);
  if (status == Status::kMore) return;
  if (status == Status::kTooLong) {  // as the channel does: the stream is over
    const Error error = reader.error();
    links_[link].ends[side].gone = true;
    break_link(link, side == 0 ? Duration{-1} : hop(), side == 0 ? hop() : Duration{-1});
    return world_.feed(node, core::in::LinkDown{id, error});
  }
  const auto payload = sent.subspan(control::kFramePrefix);
  if (!std::equal(frame.begin(), frame.end(), payload.begin(), payload.end()) || reader.buffered() > 0) {
    world_.laws().broken(Law::kWrongContent, "the frame reader gives another frame than was sent");
  }
  auto message = wire::decode(frame);
  if (!message) return world_.feed(node, core::in::BadFrame{id});
  ++world_.coverage().messages[message->body.index()];
  const auto* grant = std::get_if<wire::Grant>(&message->body);
  if (grant != nullptr && grant->part == 1) ++world_.coverage().limits["page_runs_per_part"];
  world_.feed(node, core::in::Received{id, std::move(*message)});
}

std::uint32_t Net::random_link() {
  std::vector<std::uint32_t> up;
  for (std::uint32_t i = 0; i < links_.size(); ++i) {
    if (usable(links_[i], 0) && usable(links_[i], 1)) up.push_back(i);
  }
  return up.empty() ? ~0U : up[world_.rng().below(up.size())];
}

void Net::cut_one() {
  const std::uint32_t i = random_link();
  if (i == ~0U) return;
  break_link(i, hop(), world_.rng().chance(0.3) ? world_.between(milliseconds(10), seconds(6)) : hop());
}

void Net::clog_one() {
  const std::uint32_t i = random_link();
  if (i != ~0U) links_[i].clogged_until = world_.now() + world_.between(milliseconds(20), seconds(4));
}

void Net::partition_one() {
  const auto a = static_cast<std::uint32_t>(world_.rng().below(nodes_));
  const auto b = static_cast<std::uint32_t>(world_.rng().below(nodes_));
  if (a == b) return;
  cut_until_[static_cast<std::size_t>(std::min(a, b)) * nodes_ + std::max(a, b)] =
      world_.now() + world_.between(milliseconds(50), seconds(6));
}

void Net::heal() {
  std::fill(cut_until_.begin(), cut_until_.end(), TimePoint{});
  for (Link& l : links_) l.clogged_until = TimePoint{};
}

}  // namespace kvferry::sim
