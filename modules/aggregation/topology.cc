#include "aggregation/topology.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>

#include "base/json.h"

namespace nezha::aggregation {
namespace {

// The error that says what is wrong with one node.
Status refuse(std::string_view name, const std::string& what) {
  return error(Code::invalid_argument, "topology: node \"%.*s\": %s", static_cast<int>(name.size()),
               name.data(), what.c_str());
}

bool is_whole_address(const std::optional<IpPrefix>& prefix) {
  return prefix.has_value() && prefix->length == prefix->bits();
}

// "10.1.0.1:7700", "[fd00::1]:7700"
bool split_address(std::string_view text, TopologyNode* node) {
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return false;
  std::string_view host = text.substr(0, colon);
  const std::string_view port = text.substr(colon + 1);
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (bracketed) host = host.substr(1, host.size() - 2);
  if (!bracketed && host.find(':') != std::string_view::npos) return false;
  const bool numeric = host.find_first_of("/%") == std::string_view::npos;
  if (!numeric || !is_whole_address(parse_ip_prefix(host))) return false;
  const auto read = std::from_chars(port.data(), port.data() + port.size(), node->port);
  if (read.ec != std::errc() || read.ptr != port.data() + port.size() || node->port == 0) return false;
  node->address = host;
  return true;
}

// The prefix in a form that does not depend on its spelling, to find one that is given twice.
std::string key_of(IpPrefix prefix) {
  for (int bit = prefix.length; bit < prefix.bits(); ++bit) {
    prefix.bytes[static_cast<size_t>(bit / 8)] &= static_cast<uint8_t>(~(0x80u >> (bit % 8)));
  }
  std::string key(prefix.bytes.begin(), prefix.bytes.end());
  return key + std::to_string(prefix.family) + "/" + std::to_string(prefix.length);
}

class Reader {
 public:
  Status read(const JsonValue& list) {
    for (const JsonValue& entry : list.items()) {
      NEZHA_RETURN_IF_ERROR(read_node(entry));
    }
    for (size_t i = 0; i < out.nodes.size(); ++i) NEZHA_RETURN_IF_ERROR(find_parent(i));
    if (const auto roots = count_roots(); roots != 1) {
      return error(Code::invalid_argument, "topology: %d nodes have no parent; exactly one is the root",
                   static_cast<int>(roots));
    }
    for (size_t i = 0; i < out.nodes.size(); ++i) NEZHA_RETURN_IF_ERROR(climb(static_cast<int>(i)));
    return settle_serving();
  }

  Topology out;

 private:
  Status read_node(const JsonValue& entry) {
    TopologyNode node;
    node.name = entry.at("name").string_or("");
    if (node.name.empty() || node.name.size() > kTopologyNameMax) {
      return error(Code::invalid_argument, "topology: node %zu has no \"name\" of 1 to %zu bytes",
                   out.nodes.size(), kTopologyNameMax);
    }
    if (out.find(node.name) >= 0) return refuse(node.name, "two nodes have that name");
    for (const auto& [key, value] : entry.fields()) {
      const bool known = key == "name" || key == "address" || key == "parent" || key == "serves";
      if (!known) return refuse(node.name, "\"" + key + "\" is nothing that a node has");
    }
    const auto address = std::string(entry.at("address").string_or(""));
    if (!split_address(address, &node)) {
      return refuse(node.name, "its address \"" + address + "\" is not of the form 10.1.0.1:7700");
    }
    for (const TopologyNode& other : out.nodes) {
      if (other.address != node.address || other.port != node.port) continue;
      return refuse(node.name, "node \"" + other.name + "\" has the same address");
    }
    const JsonValue& parent = entry.at("parent");
    if (!parent.is_null() && !parent.is_string()) return refuse(node.name, "its parent is no name");
    parents_.emplace_back(parent.string_or(""));
    NEZHA_RETURN_IF_ERROR(read_serves(entry.at("serves"), &node));
    out.nodes.push_back(std::move(node));
    return Status::ok();
  }

  Status read_serves(const JsonValue& list, TopologyNode* node) {
    node->serves_everybody = list.is_null();  // unless it has children
    if (!list.is_null() && !list.is_array()) return refuse(node->name, "\"serves\" is no list");
    for (const JsonValue& item : list.items()) {
      std::string text(item.string_or(""));
      const auto prefix = parse_ip_prefix(text);
      if (!prefix || text.find('%') != std::string::npos) {
        return refuse(node->name, "it serves \"" + text + "\", which is not of the form 10.1.0.0/24");
      }
      const auto [other, is_new] = served_by_.emplace(key_of(*prefix), node->name);
      if (!is_new) {
        return refuse(node->name, "it serves " + text + ", and so does node \"" + other->second + "\"");
      }
      node->serves.push_back(std::move(text));
    }
    return Status::ok();
  }

  Status find_parent(size_t index) {
    TopologyNode& node = out.nodes[index];
    if (parents_[index].empty()) return Status::ok();
    node.parent = out.find(parents_[index]);
    if (node.parent >= 0) return Status::ok();
    return refuse(node.name, "its parent \"" + parents_[index] + "\" is no node of this list");
  }

  int64_t count_roots() const {
    return std::count_if(out.nodes.begin(), out.nodes.end(),
                         [](const TopologyNode& node) { return node.parent < 0; });
  }

  Status climb(int index) const {
    int at = index;
    for (int steps = 0; at >= 0; ++steps) {
      if (steps > out.size()) {
        return refuse(out.nodes[static_cast<size_t>(index)].name, "its parents form a cycle");
      }
      at = out.nodes[static_cast<size_t>(at)].parent;
    }
    return Status::ok();
  }

  Status settle_serving() {
    const TopologyNode* general = nullptr;
    for (const TopologyNode& node : out.nodes) {
      if (node.parent >= 0) out.nodes[static_cast<size_t>(node.parent)].serves_everybody = false;
    }
    for (const TopologyNode& node : out.nodes) {
      if (!node.serves_everybody) continue;
      if (general != nullptr) {
        return refuse(node.name, "it has no \"serves\" and so serves everybody, as node \"" +
                                     general->name + "\" does");
      }
      general = &node;
    }
    return Status::ok();
  }

  std::vector<std::string> parents_;
  std::map<std::string, std::string> served_by_;
};

}  // namespace

int Topology::find(std::string_view name) const {
  const auto found = std::find_if(nodes.begin(), nodes.end(),
                                  [&](const TopologyNode& node) { return node.name == name; });
  return found == nodes.end() ? -1 : static_cast<int>(found - nodes.begin());
}

int Topology::leaf_of(std::string_view address) const {
  const auto host = parse_ip_prefix(address);
  if (!is_whole_address(host)) return -1;
  int best = -1;
  int best_length = -1;
  for (int i = 0; i < size(); ++i) {
    const TopologyNode& node = nodes[static_cast<size_t>(i)];
    if (node.serves_everybody && best_length < 0) best = i;
    for (const std::string& text : node.serves) {
      const auto prefix = parse_ip_prefix(text);
      if (!prefix || !prefix->contains(*host) || prefix->length <= best_length) continue;
      best = i;
      best_length = prefix->length;
    }
  }
  return best;
}

bool Topology::is_above(int upper, int lower) const {
  if (lower < 0 || lower >= size()) return false;
  for (int at = nodes[static_cast<size_t>(lower)].parent; at >= 0;
       at = nodes[static_cast<size_t>(at)].parent) {
    if (at == upper) return true;
  }
  return false;
}

Topology flat_topology(std::string_view address, uint16_t port) {
  Topology topology;
  topology.nodes.push_back({"node", std::string(address), port, -1, true, {}});
  return topology;
}

Result<Topology> parse_topology(std::string_view json) {
  if (json.size() > kTopologyBytesMax) {
    return error(Code::invalid_argument, "topology: %zu bytes; at most %zu", json.size(),
                 kTopologyBytesMax);
  }
  auto document = parse_json(json);
  if (!document) {
    return error(Code::invalid_argument, "topology: %s", document.status().message().c_str());
  }
  const JsonValue& list = document->at("nodes");
  if (!list.is_array() || list.items().empty() || list.items().size() > kTopologyNodesMax) {
    return error(Code::invalid_argument, "topology: it has no list \"nodes\" of 1 to %zu nodes",
                 kTopologyNodesMax);
  }
  Reader reader;
  NEZHA_RETURN_IF_ERROR(reader.read(list));
  return std::move(reader.out);
}

std::string to_json(const Topology& topology) {
  JsonWriter json;
  json.begin_object().key("nodes").begin_array();
  for (const TopologyNode& node : topology.nodes) {
    const bool is_v6 = node.address.find(':') != std::string::npos;
    const std::string host = is_v6 ? "[" + node.address + "]" : node.address;
    json.begin_object().field("name", node.name);
    json.field("address", host + ":" + std::to_string(node.port));
    if (node.parent >= 0) {
      json.field("parent", topology.nodes[static_cast<size_t>(node.parent)].name);
    }
    if (!node.serves_everybody) {
      json.key("serves").begin_array();
      for (const std::string& prefix : node.serves) json.value(prefix);
      json.end_array();
    }
    json.end_object();
  }
  return json.end_array().end_object().take();
}

Result<TreePlan> plan_tree(const Topology& topology, int world, std::span<const int> ranks,
                          std::span<const int> leaves) {
  const auto count = static_cast<size_t>(topology.size());
  if (ranks.size() < 2 || ranks.size() != leaves.size()) {
    return error(Code::unsupported, "aggregation: a communicator of %zu ranks has nothing to reduce",
                 ranks.size());
  }
  // `own`: how many ranks each node serves itself. `used`: whether it or a node below it serves
  // any. `branches`: how many of its children are nodes that are used.
  std::vector<int> own(count, 0);
  std::vector<bool> used(count, false);
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (leaves[i] < 0 || leaves[i] >= topology.size()) {
      return error(Code::unsupported, "aggregation: no node serves rank %d", ranks[i]);
    }
    ++own[static_cast<size_t>(leaves[i])];
    for (int at = leaves[i]; at >= 0; at = topology.nodes[static_cast<size_t>(at)].parent) {
      used[static_cast<size_t>(at)] = true;
    }
  }
  std::vector<int> branches(count, 0);
  for (size_t node = 0; node < count; ++node) {
    const int parent = topology.nodes[node].parent;
    if (used[node] && parent >= 0) ++branches[static_cast<size_t>(parent)];
  }
  TreePlan plan;
  plan.members.assign(ranks.begin(), ranks.end());
  plan.tree.ranks = static_cast<int>(ranks.size());
  std::vector<int> member_of(count, -1);
  for (size_t node = 0; node < count; ++node) {
    if (own[node] == 0 && branches[node] < 2) continue;
    member_of[node] = static_cast<int>(plan.members.size());
    plan.members.push_back(world + static_cast<int>(node));
  }
  for (const int leaf : leaves) plan.tree.parent.push_back(member_of[static_cast<size_t>(leaf)]);
  for (size_t node = 0; node < count; ++node) {
    if (member_of[node] < 0) continue;
    int at = topology.nodes[node].parent;
    while (at >= 0 && member_of[static_cast<size_t>(at)] < 0) {
      at = topology.nodes[static_cast<size_t>(at)].parent;
    }
    plan.tree.parent.push_back(at < 0 ? -1 : member_of[static_cast<size_t>(at)]);
  }
  NEZHA_RETURN_IF_ERROR(schedule::check_tree(plan.tree));
  return plan;
}

int registrar_of(const schedule::AggregationTree& tree, int node) {
  for (int member = 0; member < tree.members(); ++member) {
    if (tree.parent[static_cast<size_t>(member)] == node) return member;
  }
  return -1;
}

}  // namespace nezha::aggregation
