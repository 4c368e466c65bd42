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
}

void Net::plan_frame(std::uint32_t link, std::uint32_t side, std::span<const std::byte> bytes, bool stray) {
  const std::uint32_t slot = take_frame();
  Frame& f = frames_[slot];
  Link& l = links_[link];
  f.bytes.assign(bytes.begin(), bytes.end());
  f.link = link;
  f.side = side;
  f.stray = stray;
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

// The link that a frame comes in by; null: it is lost.
const Net::Link* Net::route(const Frame& f, std::uint32_t& side) const {
  if (cut(f.from_node, f.to_node)) return nullptr;
  const Link& own = links_[f.link];
  side = f.side;
  if (usable(own, side)) return &own;
  if (!f.stray) return nullptr;
  for (std::size_t i = links_.size(); i-- > 0;) {
    for (std::uint32_t s = 0; s < 2; ++s) {
      const Link& l = links_[i];
      if (l.ends[s].node != f.to_node || l.ends[1 - s].node != f.from_node || !usable(l, s)) continue;
      side = s;
      return &l;
    }
  }
  return nullptr;
}

void Net::on_frame(std::uint32_t slot) {
  std::uint32_t side = 0;
  const Link* l = route(frames_[slot], side);
  if (l != nullptr) {
    const LinkId id = l->ends[side].id;
    const std::uint32_t node = l->ends[side].node;
    ++world_.coverage().frames;
    auto message = wire::decode(frames_[slot].bytes);
    if (message) {
      ++world_.coverage().messages[message->body.index()];
      world_.feed(node, core::in::Received{id, std::move(*message)});
    } else {
      world_.feed(node, core::in::BadFrame{id});
    }
  }
  free_frames_.push_back(slot);
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
