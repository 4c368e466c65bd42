// One prefill and one decode engine, and the words in which a short story about them is told.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "unit/engine_pair.h"

namespace kvferry::core::test {

class EngineStory : public ::testing::Test {
 protected:
  void start(Kind kind, const EngineConfig& prefill = {}, const EngineConfig& decode = {}) {
    net = std::make_unique<Net>(kind);
    p = net->add("prefill", prefill);
    d = net->add("decode", decode);
    net->endpoint_names[0] = "prefill:1";
    net->feed(d, in::Endpoint{EndpointId{0}, "prefill:1"});
  }
  Handle sender(std::uint64_t room, std::uint32_t slot, Tag tag = {}) {
    const Handle h{slot, ++generation};
    net->feed(p, in::Open{h, RoomId{room}, Role::kSender, tag, {}, 0, 1, {}, 0, 0});
    return h;
  }
  Handle receiver(std::uint64_t room, std::uint32_t slot, Tag tag = {}, std::uint32_t leg = 0,
                  std::uint32_t legs = 1, std::size_t node = 1) {
    const Handle h{slot, ++generation};
    net->feed(node, in::Open{h, RoomId{room}, Role::kReceiver, tag, {EndpointId{0}}, leg, legs, {}, 0, 0});
    return h;
  }
  void grant(Handle h, std::uint32_t page, std::size_t node = 1) {
    GrantSpec spec;
    spec.pages = {{page, 1}};
    spec.tokens = 4;
    net->feed(node, in::GrantPages{h, spec});
  }
  void push(Handle h) {
    ChunkSpec c;
    c.pages = {{0, 1}};
    c.tokens = 4;
    c.last = true;
    net->feed(p, in::Push{h, c});
  }
  void abort(std::size_t node, Handle h, const std::string& why) {
    net->feed(node, in::Abort{h, Error{Code::kAborted, Who::kLocal, Next::kNewRoom, 0, "", why}});
  }
  std::string why(std::size_t node, Handle h) { return net->nodes[node].causes[h.slot].why; }
  Poll poll(std::size_t node, Handle h) { return net->nodes[node].polls[h.slot]; }

  std::unique_ptr<Net> net;
  std::size_t p = 0, d = 0;
  std::uint32_t generation = 0;
};

}  // namespace kvferry::core::test
