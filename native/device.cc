// SPDX-License-Identifier: Apache-2.0
#include "device.h"

#include <linux/genetlink.h>
#include <linux/if_link.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "args.h"
#include "errors.h"
#include "fd.h"

namespace waggle {
namespace {

// linux/netdev.h of Linux 6.3, which build machines may not have.
constexpr const char* kNetdevFamily = "netdev";
constexpr uint8_t kNetdevDeviceGet = 1;
constexpr uint16_t kNetdevIfindex = 1;
constexpr uint16_t kNetdevXdpFeatures = 3;

// The kernel answers within one page, and half as much again with netdev's statistics.
constexpr size_t kAnswerRoom = 32768;

// Attributes by type, as views into the answer.
using Attributes = std::map<uint16_t, std::pair<const uint8_t*, size_t>>;

Attributes ParseAttributes(const uint8_t* data, size_t size) {
  Attributes found;
  while (size >= sizeof(nlattr)) {
    nlattr head;
    memcpy(&head, data, sizeof(head));
    if (head.nla_len < sizeof(head) || head.nla_len > size) break;
    found[head.nla_type & NLA_TYPE_MASK] = {data + sizeof(head), head.nla_len - sizeof(head)};
    size_t step = std::min<size_t>(NLA_ALIGN(head.nla_len), size);
    data += step;
    size -= step;
  }
  return found;
}

template <typename Number>
std::optional<Number> NumberOf(const Attributes& attributes, uint16_t type) {
  auto found = attributes.find(type);
  Number number;
  if (found == attributes.end() || found->second.second < sizeof(number)) return std::nullopt;
  memcpy(&number, found->second.first, sizeof(number));
  return number;
}

std::string TextOf(const Attributes& attributes, uint16_t type) {
  auto found = attributes.find(type);
  if (found == attributes.end()) return "";
  auto* text = reinterpret_cast<const char*>(found->second.first);
  return std::string(text, strnlen(text, found->second.second));
}

// Those in an attribute that is made of attributes.
Attributes Nested(const Attributes& attributes, uint16_t type) {
  auto found = attributes.find(type);
  return found == attributes.end() ? Attributes() : ParseAttributes(found->second.first, found->second.second);
}

// A request of one message: header of the family, then attributes.
struct Request {
  std::vector<uint8_t> bytes = std::vector<uint8_t>(NLMSG_HDRLEN);

  template <typename Header>
  void Add(const Header& header) {
    size_t at = bytes.size();
    bytes.resize(at + NLMSG_ALIGN(sizeof(header)));
    memcpy(bytes.data() + at, &header, sizeof(header));
  }
  void AddAttribute(uint16_t type, const void* value, size_t size) {
    nlattr head = {static_cast<uint16_t>(sizeof(head) + size), type};
    size_t at = bytes.size();
    bytes.resize(at + NLA_ALIGN(head.nla_len));
    memcpy(bytes.data() + at, &head, sizeof(head));
    memcpy(bytes.data() + at + sizeof(head), value, size);
  }
};

// Sends the request and returns 0 with the one answer's bytes behind its netlink header, or an errno.
int Ask(int protocol, uint16_t type, Request request, std::vector<uint8_t>* answer) {
  UniqueFd socket(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol));
  if (!socket.valid()) return errno;
  nlmsghdr head = {};
  head.nlmsg_len = static_cast<uint32_t>(request.bytes.size());
  head.nlmsg_type = type;
  head.nlmsg_flags = NLM_F_REQUEST;
  memcpy(request.bytes.data(), &head, sizeof(head));
  if (send(socket.get(), request.bytes.data(), request.bytes.size(), 0) < 0) return errno;
  answer->resize(kAnswerRoom);
  ssize_t size = recv(socket.get(), answer->data(), answer->size(), 0);
  if (size < 0) return errno;
  if (static_cast<size_t>(size) < NLMSG_HDRLEN) return EBADMSG;
  memcpy(&head, answer->data(), sizeof(head));
  if (head.nlmsg_type == NLMSG_ERROR) {
    int error = -EBADMSG;
    if (static_cast<size_t>(size) >= NLMSG_HDRLEN + sizeof(error))
      memcpy(&error, answer->data() + NLMSG_HDRLEN, sizeof(error));
    return -error;
  }
  answer->resize(std::min<size_t>(size, head.nlmsg_len));
  answer->erase(answer->begin(), answer->begin() + NLMSG_HDRLEN);
  return 0;
}

// The attributes behind a family's header of this size; the answer must outlive them.
Attributes Behind(const std::vector<uint8_t>& answer, size_t header) {
  header = NLMSG_ALIGN(header);
  return answer.size() < header ? Attributes() : ParseAttributes(answer.data() + header, answer.size() - header);
}

// A generic netlink family's number; nothing where the kernel has none of the name.
std::optional<uint16_t> FamilyOf(const char* name) {
  Request request;
  request.Add(genlmsghdr{CTRL_CMD_GETFAMILY, 1, 0});
  request.AddAttribute(CTRL_ATTR_FAMILY_NAME, name, strlen(name) + 1);
  std::vector<uint8_t> answer;
  if (Ask(NETLINK_GENERIC, GENL_ID_CTRL, std::move(request), &answer)) return std::nullopt;
  return NumberOf<uint16_t>(Behind(answer, sizeof(genlmsghdr)), CTRL_ATTR_FAMILY_ID);
}

// NETDEV_XDP_ACT_*; nothing before Linux 6.3.
std::optional<uint64_t> XdpFeatures(uint32_t ifindex) {
  std::optional<uint16_t> family = FamilyOf(kNetdevFamily);
  if (!family) return std::nullopt;
  Request request;
  request.Add(genlmsghdr{kNetdevDeviceGet, 1, 0});
  request.AddAttribute(kNetdevIfindex, &ifindex, sizeof(ifindex));
  std::vector<uint8_t> answer;
  if (Ask(NETLINK_GENERIC, *family, std::move(request), &answer)) return std::nullopt;
  return NumberOf<uint64_t>(Behind(answer, sizeof(genlmsghdr)), kNetdevXdpFeatures);
}

}  // namespace

Napi::Value QueryDevice(const Napi::CallbackInfo& info) {
  Args args(info, "queryDevice");
  Napi::Env env = info.Env();
  int ifindex = args.GetIfindex(0);
  Request request;
  ifinfomsg about = {};
  about.ifi_index = ifindex;
  request.Add(about);
  std::vector<uint8_t> answer;
  int error = Ask(NETLINK_ROUTE, RTM_GETLINK, std::move(request), &answer);
  if (error == ENODEV) return env.Undefined();
  if (error) throw SystemError(env, error, "netlink", "ifindex " + std::to_string(ifindex));

  Attributes link = Behind(answer, sizeof(about));
  Attributes xdp = Nested(link, IFLA_XDP);
  std::optional<uint64_t> features = XdpFeatures(static_cast<uint32_t>(ifindex));
  auto mac = link.find(IFLA_ADDRESS);
  bool has_mac = mac != link.end();
  Napi::Object device = Napi::Object::New(env);
  device.Set("name", TextOf(link, IFLA_IFNAME));
  device.Set("mac", has_mac ? Napi::Buffer<uint8_t>::Copy(env, mac->second.first, mac->second.second)
                            : Napi::Buffer<uint8_t>::New(env, 0));
  device.Set("kind", TextOf(Nested(link, IFLA_LINKINFO), IFLA_INFO_KIND));
  device.Set("master", Napi::Number::New(env, NumberOf<uint32_t>(link, IFLA_MASTER).value_or(0)));
  device.Set("xdpMode", Napi::Number::New(env, NumberOf<uint8_t>(xdp, IFLA_XDP_ATTACHED).value_or(0)));
  device.Set("xdpProgramId", Napi::Number::New(env, NumberOf<uint32_t>(xdp, IFLA_XDP_PROG_ID).value_or(0)));
  if (features) device.Set("xdpFeatures", Napi::Number::New(env, static_cast<double>(*features)));
  return device;
}

}  // namespace waggle
