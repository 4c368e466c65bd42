#include "conformance/remote_party.h"

#include <poll.h>
#include <unistd.h>

#include <array>
#include <functional>
#include <map>
#include <string>

#include "conformance/local_party.h"
#include "conformance/party_json.h"

namespace kvferry::conformance {
namespace {

constexpr int kAnswerMs = 20'000;

class RemoteParty final : public Party {
 public:
  explicit RemoteParty(int stream) : stream_(stream) {}
  ~RemoteParty() override { close(stream_); }

  Capabilities capabilities() override {
    const Json answer = ask({{"call", "capabilities"}});
    return answer.contains("value") ? capabilities_from(answer["value"]) : Capabilities{};
  }
  std::vector<std::byte> describe() override { return bytes(ask({{"call", "describe"}})); }
  Result<> add_region(RegionId id, std::uint64_t size) override {
    return result(ask({{"call", "add_region"}, {"id", id.value}, {"bytes", size}}));
  }
  Result<> add_foreign_region(RegionId id, Memory memory) override {
    return result(
        ask({{"call", "add_foreign"}, {"id", id.value}, {"memory", static_cast<unsigned>(memory)}}));
  }
  Result<> drop_region(RegionId id) override {
    return result(ask({{"call", "drop_region"}, {"id", id.value}}));
  }
  Result<> add_peer(PeerId id, const std::vector<std::byte>& text) override {
    return result(ask({{"call", "add_peer"}, {"id", id.value}, {"text", to_json(text)}}));
  }
  void drop_peer(PeerId id) override { ask({{"call", "drop_peer"}, {"id", id.value}}); }
  Result<> fence(PeerId id) override { return result(ask({{"call", "fence"}, {"id", id.value}})); }
  Result<> lend(const LoanSpec& loan) override {
    return result(ask({{"call", "lend"}, {"loan", to_json(loan)}}));
  }
  Result<> revoke(LoanId id) override {
    return result(ask({{"call", "revoke"}, {"slot", id.slot}, {"serial", id.serial}}));
  }
  Result<> post(const OpSpec& op) override { return result(ask({{"call", "post"}, {"op", to_json(op)}})); }
  void cancel(OpId id) override { ask({{"call", "cancel"}, {"id", id.value}}); }
  void pump() override {}
  std::vector<SeenEvent> take_events() override {
    const Json answer = ask({{"call", "take"}});
    std::vector<SeenEvent> events;
    if (answer.contains("value")) {
      for (const Json& each : answer["value"]) events.push_back(seen_from(each));
    }
    return events;
  }
  void hold(bool held) override { ask({{"call", "hold"}, {"held", held}}); }
  void fill(RegionId id, std::uint64_t seed) override {
    ask({{"call", "fill"}, {"id", id.value}, {"seed", seed}});
  }
  std::uint64_t hash(RegionId id) override { return number(ask({{"call", "hash"}, {"id", id.value}})); }
  std::vector<std::byte> read(RegionId id, std::uint64_t offset, std::uint64_t length) override {
    return bytes(ask({{"call", "read"}, {"id", id.value}, {"offset", offset}, {"length", length}}));
  }
  void watch(RegionId id) override { ask({{"call", "watch"}, {"id", id.value}}); }
  CallCosts costs() override {
    const Json answer = ask({{"call", "costs"}});
    return answer.contains("value") ? costs_from(answer["value"]) : CallCosts{};
  }
  Resources resources() override {
    const Json answer = ask({{"call", "resources"}});
    if (!answer.contains("value")) return {};
    const Json& v = answer["value"];
    return {v.at(0).get<std::uint64_t>(), v.at(1).get<std::uint64_t>(), v.at(2).get<std::uint64_t>()};
  }
  bool wakes() override { return number(ask({{"call", "wakes"}})) != 0; }
  bool wait_wake(int ms) override { return number(ask({{"call", "wait_wake"}, {"ms", ms}})) != 0; }
  Result<> restart() override { return result(ask({{"call", "restart"}})); }

 private:
  Json ask(const Json& question) {
    Json answer;
    if (!gone_ && write_message(stream_, question) && read_message(stream_, answer, kAnswerMs)) return answer;
    gone_ = true;
    return {{"error", to_json(Error{Code::kEnvironment, Who::kPeer, Next::kNever, 0, "conformance party",
                                    "the other process does not answer"})}};
  }
  static Result<> result(const Json& answer) {
    if (!answer.contains("error")) return {};
    return tl::unexpected(error_from(answer["error"]));
  }
  static std::uint64_t number(const Json& answer) {
    return answer.contains("value") ? answer["value"].get<std::uint64_t>() : 0;
  }
  static std::vector<std::byte> bytes(const Json& answer) {
    return answer.contains("value") ? bytes_from(answer["value"]) : std::vector<std::byte>{};
  }

  int stream_;
  bool gone_ = false;
};

Json answer_of(const Result<>& result) {
  return result ? Json::object() : Json{{"error", to_json(result.error())}};
}
Json value(Json v) { return Json{{"value", std::move(v)}}; }
RegionId region(const Json& q) { return RegionId{q.at("id").get<std::uint32_t>()}; }
PeerId peer(const Json& q) { return PeerId{q.at("id").get<std::uint32_t>()}; }

using Handler = std::function<Json(LocalParty&, const Json&)>;

void add_transport_handlers(std::map<std::string, Handler>& h) {
  h["capabilities"] = [](LocalParty& p, const Json&) { return value(to_json(p.capabilities())); };
  h["describe"] = [](LocalParty& p, const Json&) { return value(to_json(p.describe())); };
  h["add_region"] = [](LocalParty& p, const Json& q) {
    return answer_of(p.add_region(region(q), q.at("bytes").get<std::uint64_t>()));
  };
  h["add_foreign"] = [](LocalParty& p, const Json& q) {
    return answer_of(
        p.add_foreign_region(region(q), static_cast<Memory>(q.at("memory").get<std::uint8_t>())));
  };
  h["drop_region"] = [](LocalParty& p, const Json& q) { return answer_of(p.drop_region(region(q))); };
  h["add_peer"] = [](LocalParty& p, const Json& q) {
    return answer_of(p.add_peer(peer(q), bytes_from(q.at("text"))));
  };
  h["drop_peer"] = [](LocalParty& p, const Json& q) {
    p.drop_peer(peer(q));
    return Json::object();
  };
  h["fence"] = [](LocalParty& p, const Json& q) { return answer_of(p.fence(peer(q))); };
  h["lend"] = [](LocalParty& p, const Json& q) { return answer_of(p.lend(loan_from(q.at("loan")))); };
  h["revoke"] = [](LocalParty& p, const Json& q) {
    return answer_of(p.revoke({q.at("slot").get<std::uint32_t>(), q.at("serial").get<std::uint64_t>()}));
  };
  h["post"] = [](LocalParty& p, const Json& q) { return answer_of(p.post(op_from(q.at("op")))); };
  h["cancel"] = [](LocalParty& p, const Json& q) {
    p.cancel(OpId{q.at("id").get<std::uint64_t>()});
    return Json::object();
  };
  h["restart"] = [](LocalParty& p, const Json&) { return answer_of(p.restart()); };
}

void add_party_handlers(std::map<std::string, Handler>& h) {
  h["take"] = [](LocalParty& p, const Json&) {
    Json list = Json::array();
    for (const SeenEvent& seen : p.take_events()) list.push_back(to_json(seen));
    return value(std::move(list));
  };
  h["hold"] = [](LocalParty& p, const Json& q) {
    p.hold(q.at("held").get<bool>());
    return Json::object();
  };
  h["fill"] = [](LocalParty& p, const Json& q) {
    p.fill(region(q), q.at("seed").get<std::uint64_t>());
    return Json::object();
  };
  h["hash"] = [](LocalParty& p, const Json& q) { return value(p.hash(region(q))); };
  h["read"] = [](LocalParty& p, const Json& q) {
    return value(
        to_json(p.read(region(q), q.at("offset").get<std::uint64_t>(), q.at("length").get<std::uint64_t>())));
  };
  h["watch"] = [](LocalParty& p, const Json& q) {
    p.watch(region(q));
    return Json::object();
  };
  h["costs"] = [](LocalParty& p, const Json&) { return value(to_json(p.costs())); };
  h["resources"] = [](LocalParty& p, const Json&) {
    const Resources r = p.resources();
    return value(Json::array({r.descriptors, r.threads, r.mappings}));
  };
  h["wakes"] = [](LocalParty& p, const Json&) { return value(p.wakes() ? 1 : 0); };
  h["wait_wake"] = [](LocalParty& p, const Json& q) {
    return value(p.wait_wake(q.at("ms").get<int>()) ? 1 : 0);
  };
}

// A question of the other process is data from outside: whatever is wrong with it becomes an answer.
Json handle(const std::map<std::string, Handler>& handlers, LocalParty& party, const Json& question) {
  std::string why;
  try {
    const auto it = handlers.find(question.at("call").get<std::string>());
    if (it != handlers.end()) return it->second(party, question);
    why = "unknown call " + question.at("call").get<std::string>();
  } catch (const std::exception& thrown) {
    why = thrown.what();
  }
  return {
      {"error", to_json(Error{Code::kBadMessage, Who::kPeer, Next::kNever, 0, "conformance party", why})}};
}

}  // namespace

std::unique_ptr<Party> make_remote_party(int stream) { return std::make_unique<RemoteParty>(stream); }

int serve_party(int stream, const MakerSpec& spec) {
  auto party = LocalParty::start(spec);
  std::map<std::string, Handler> handlers;
  add_transport_handlers(handlers);
  add_party_handlers(handlers);
  Json question;
  while (true) {
    if (party) (*party)->pump();
    std::array<pollfd, 2> fds{pollfd{stream, POLLIN, 0}, pollfd{-1, POLLIN, 0}};
    Transport* transport = party ? (*party)->transport() : nullptr;
    const bool held = party && (*party)->held();
    if (transport != nullptr && !held) fds[1].fd = transport->wake_fd();
    const bool polled = transport != nullptr && !held && (transport->busy() || transport->wake_fd() < 0);
    if (poll(fds.data(), fds.size(), polled ? 0 : 50) <= 0 || (fds[0].revents & (POLLIN | POLLHUP)) == 0)
      continue;
    if (!read_message(stream, question, kAnswerMs)) break;
    const Json answer = party ? handle(handlers, **party, question) : Json{{"error", to_json(party.error())}};
    if (!write_message(stream, answer)) break;
  }
  return party ? 0 : 3;
}

}  // namespace kvferry::conformance
