#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <string_view>

#include "core/registry.h"
#include "kvferry/testkit.h"
#include "python/convert.h"
#include "python/room.h"

namespace kvferry::python {
namespace {

using namespace nb::literals;

struct PyCluster {
  std::shared_ptr<testkit::Cluster> cluster;
};
struct PyFaultNet {
  std::shared_ptr<testkit::Cluster> cluster;
};
struct PyNode {
  std::shared_ptr<testkit::Cluster> cluster;
  testkit::Node* node;  // of the cluster
};

Error crashed(const PyNode& node) {
  return {Code::kRefused,
          Who::kLocal,
          Next::kAfterFix,
          0,
          "node " + node.node->name,
          "it is crashed; restart() it, then take Node.manager anew"};
}

// The manager of the life that the node had when this was made; gone with a crash.
class PyNodeManager final : public RoomHost {
 public:
  explicit PyNodeManager(PyNode node) : node_(std::move(node)), life_(life()) {}
  Manager* manager() noexcept override { return find(); }
  Manager& get() const {
    Manager* found = find();
    if (found == nullptr) raise(crashed(node_));
    return *found;
  }

 private:
  Incarnation life() const {
    if (node_.node->manager == nullptr) raise(crashed(node_));
    return node_.node->manager->incarnation();
  }
  Manager* find() const noexcept {
    Manager* present = node_.node->manager.get();
    return present != nullptr && present->incarnation() == life_ ? present : nullptr;
  }
  PyNode node_;
  Incarnation life_;
};

class PyFaultMover {
 public:
  explicit PyFaultMover(PyNode node) : node_(std::move(node)) {}
  testkit::FaultMover& get() const {
    if (node_.node->manager == nullptr) raise(crashed(node_));
    return *node_.node->mover;
  }

 private:
  PyNode node_;
};

// By the number of the code: the classes of kvferry/errors.py.
constexpr std::array<std::string_view, 16> kClasses{
    "Error",       "Aborted",          "Rejected",   "Timeout",   "PeerLost",   "Superseded",
    "Refused",     "MismatchError",    "BadMessage", "Exhausted", "WouldBlock", "TransportError",
    "Unsupported", "EnvironmentFault", "UsageError", "Bug"};

void fail_next(PyFaultMover& self, bool halfway, const std::string& kind, std::string what, std::string why,
               int next, std::int32_t status) {
  Error error{Code::kTransport, Who::kTransport, static_cast<Next>(next),
              status,           std::move(what), std::move(why)};
  for (std::size_t i = 1; i < kClasses.size(); ++i) {
    if (kClasses[i] == kind) error.code = static_cast<Code>(i);
  }
  if (halfway) {
    self.get().fail_next_halfway(std::move(error));
  } else {
    self.get().fail_next_submit(std::move(error));
  }
}

testkit::FrameRule::Act act_of(const std::string& word) {
  using Act = testkit::FrameRule::Act;
  if (word == "drop") return Act::kDrop;
  if (word == "delay") return Act::kDelay;
  if (word == "duplicate") return Act::kDuplicate;
  if (word == "reorder") return Act::kReorder;
  if (word == "truncate") return Act::kTruncate;
  raise(usage("act", "\"" + word + "\"; known: drop, delay, duplicate, reorder, truncate"));
}

std::size_t add_rule(PyFaultNet& self, const std::string& act, std::string message, std::string sender,
                     std::string receiver, double delay, std::uint32_t times) {
  testkit::FrameRule rule;
  rule.act = act_of(act);
  rule.message = std::move(message);
  rule.from = std::move(sender);
  rule.to = std::move(receiver);
  rule.delay = seconds(delay, "delay");
  rule.times = times;
  return self.cluster->net().add(std::move(rule));
}

void make_cluster(PyCluster* self, std::uint32_t prefill, std::uint32_t decode, std::uint32_t pages,
                  std::uint32_t page_tokens, std::uint32_t layers, std::uint32_t item_bytes,
                  std::uint32_t aux_slots, std::uint32_t aux_bytes, const std::string& mover,
                  const Settings& settings, bool pp) {
  if (prefill == 0 || decode == 0)
    raise(usage("cluster", "at least one prefill and one decode node are needed"));
  if (mover != "loopback-push" && mover != "loopback-pull" && mover != "loopback-landed") {
    raise(usage("mover", "\"" + mover + "\"; known: loopback-push, loopback-pull, loopback-landed"));
  }
  const config::Config config = take(config_of(settings));
  testkit::ClusterOptions options;
  options.prefill = prefill;
  options.decode = decode;
  options.pages = pages;
  options.page_tokens = page_tokens;
  options.layers = layers;
  options.item_bytes = item_bytes;
  options.aux_slots = aux_slots;
  options.aux_bytes = aux_bytes;
  options.mover = mover;
  options.deadlines = config.deadlines;
  options.limits = config.limits;
  options.pp = pp;
  new (self) PyCluster{std::make_shared<testkit::Cluster>(options)};
}

void bind_node(nb::module_& m) {
  nb::class_<PyNode>(m, "Node")
      .def("__init__",
           [](PyNode* self, PyCluster& cluster, bool prefill, std::uint32_t index) {
             auto& all = *cluster.cluster;
             new (self) PyNode{cluster.cluster, prefill ? &all.prefill(index) : &all.decode(index)};
           })
      .def_prop_ro("name", [](const PyNode& self) { return self.node->name; })
      .def("_item",
           [](nb::handle self, std::uint32_t layer, std::uint32_t page) {
             testkit::Node& node = *nb::cast<PyNode&>(self).node;
             if (layer >= node.layers || page >= node.pages) {
               raise(usage("item", "layer " + std::to_string(layer) + " of " + std::to_string(node.layers) +
                                       ", page " + std::to_string(page) + " of " +
                                       std::to_string(node.pages)));
             }
             return nb::ndarray<nb::numpy, std::uint8_t, nb::ndim<1>>(node.item(layer, page),
                                                                      {node.item_bytes}, self);
           })
      .def("_aux", [](nb::handle self, std::uint32_t slot) {
        testkit::Node& node = *nb::cast<PyNode&>(self).node;
        const std::size_t slots =
            static_cast<std::size_t>(node.pool.data() + node.pool.size() - node.aux(0)) /
            std::max<std::size_t>(node.aux_bytes, 1);  // they end the pool
        if (slot >= slots) {
          raise(usage("aux", "slot " + std::to_string(slot) + " of " + std::to_string(slots)));
        }
        return nb::ndarray<nb::numpy, std::uint8_t, nb::ndim<1>>(node.aux(slot), {node.aux_bytes}, self);
      });
  nb::class_<PyNodeManager, RoomHost>(m, "NodeManager")
      .def("__init__", [](PyNodeManager* self, PyNode& node) { new (self) PyNodeManager(node); })
      .def_prop_ro("endpoint", [](const PyNodeManager& self) { return self.get().endpoint(); })
      .def_prop_ro(
          "incarnation",
          [](const PyNodeManager& self) { return core::print_incarnation(self.get().incarnation()); })
      .def(
          "fired",
          [](PyNodeManager& self, std::uint64_t event, bool ok) { check(self.get().fired({event}, ok)); },
          "event"_a, "ok"_a = true)
      .def("rekey", [](PyNodeManager& self) { check(self.get().rekey()); })
      .def(
          "_take_events", [](PyNodeManager& self, std::size_t most) { return events_of(self.get(), most); },
          "most"_a = 4096)
      .def("_counters", [](const PyNodeManager& self) { return counters_of(self.get()); })
      .def("_quarantined", [](const PyNodeManager& self) { return quarantined_of(self.get()); });
}

void bind_faults(nb::module_& m) {
  nb::class_<PyFaultMover>(m, "FaultMover")
      .def("__init__", [](PyFaultMover* self, PyNode& node) { new (self) PyFaultMover(node); })
      .def_prop_ro("held", [](const PyFaultMover& self) { return self.get().held(); })
      .def_prop_ro("posts", [](const PyFaultMover& self) { return self.get().posts(); })
      .def("hold", [](PyFaultMover& self) { self.get().hold(); })
      .def("release", [](PyFaultMover& self) { return self.get().release(); })
      .def("land_late", [](PyFaultMover& self) { self.get().land_late(); })
      .def("release_late", [](PyFaultMover& self) { return self.get().release_late(); })
      .def("lose_next_completion", [](PyFaultMover& self) { self.get().lose_next_completion(); })
      .def("double_next_completion", [](PyFaultMover& self) { self.get().double_next_completion(); })
      .def("_fail_next", &fail_next);
  nb::class_<PyFaultNet>(m, "FaultNet")
      .def("__init__", [](PyFaultNet* self, PyCluster& cluster) { new (self) PyFaultNet{cluster.cluster}; })
      .def_prop_ro("dropped", [](const PyFaultNet& self) { return self.cluster->net().dropped(); })
      .def_prop_ro("delayed", [](const PyFaultNet& self) { return self.cluster->net().delayed(); })
      .def_prop_ro("duplicated", [](const PyFaultNet& self) { return self.cluster->net().duplicated(); })
      .def_prop_ro("truncated", [](const PyFaultNet& self) { return self.cluster->net().truncated(); })
      .def("remove", [](PyFaultNet& self, std::size_t rule) { self.cluster->net().remove(rule); })
      .def("cut", [](PyFaultNet& self, const std::string& a,
                     const std::string& b) { self.cluster->net().cut(a, b); })
      .def("mend", [](PyFaultNet& self, const std::string& a,
                      const std::string& b) { self.cluster->net().mend(a, b); })
      .def("_add", [](PyFaultNet& self, const std::string& act, std::string message, std::string sender,
                      std::string receiver, double delay, std::uint32_t times) {
        return add_rule(self, act, std::move(message), std::move(sender), std::move(receiver), delay, times);
      });
}

}  // namespace

void bind_testkit(nb::module_& m) {
  nb::class_<PyCluster>(m, "Cluster")
      .def("__init__", &make_cluster)
      .def("settle", [](PyCluster& self) { self.cluster->settle(); })
      .def("crash", [](PyCluster& self, PyNode& node) { self.cluster->crash(*node.node); })
      .def("restart", [](PyCluster& self, PyNode& node) { self.cluster->restart(*node.node); })
      .def("senders", [](const PyCluster& self) { return self.cluster->senders(); })
      .def("_now",
           [](const PyCluster& self) { return to_seconds(self.cluster->clock().now().time_since_epoch()); })
      .def("_advance", [](PyCluster& self, double by) { self.cluster->advance(seconds(by, "seconds")); });
  bind_node(m);
  bind_faults(m);
}

}  // namespace kvferry::python
