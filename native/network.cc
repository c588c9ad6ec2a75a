// SPDX-License-Identifier: Apache-2.0
#include "network.h"

#include <arpa/inet.h>
#include <linux/if.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <cerrno>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "args.h"
#include "errors.h"
#include "fd.h"
#include "netlink.h"

namespace waggle {
namespace {

// The kernel answers within the call; this bounds what must not happen.
constexpr timeval kPatience = {5, 0};

// The kernel fills up to 32 KiB at a time for a reader that has room.
constexpr size_t kRoom = 64 * 1024;

struct Device {
  std::string name;
  uint16_t type = 0;
  bool running = false;
  bool default_route = false;
  std::vector<std::string> addresses;
};

// A socket that asks for everything of one kind.
class Dump {
 public:
  explicit Dump(Napi::Env env)
      : env_(env),
        socket_(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE)),
        answer_(std::make_unique<char[]>(kRoom)) {
    if (!socket_.valid()) throw SystemError(env, errno, "socket", "rtnetlink");
    setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &kPatience, sizeof(kPatience));
    // The kernel leaves out what the request does not ask for (Linux 4.20).
    int on = 1;
    setsockopt(socket_.get(), SOL_NETLINK, NETLINK_GET_STRICT_CHK, &on, sizeof(on));
  }

  // `request` begins with a nlmsghdr. What a kernel without the family answers counts as nothing.
  template <class Request, class Each>
  void Run(Request request, uint16_t type, const char* what, Each each) {
    request.header.nlmsg_len = sizeof(request);
    request.header.nlmsg_type = type;
    request.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
    request.header.nlmsg_seq = ++sequence_;
    if (send(socket_.get(), &request, sizeof(request), 0) < 0) throw SystemError(env_, errno, "send", what);
    for (;;) {
      ssize_t size = recv(socket_.get(), answer_.get(), kRoom, 0);
      if (size < 0 && errno == EINTR) continue;
      if (size <= 0) throw SystemError(env_, size ? errno : EBADMSG, "recv", what);
      auto left = static_cast<uint32_t>(size);
      for (auto* message = reinterpret_cast<const nlmsghdr*>(answer_.get()); NLMSG_OK(message, left);
           message = NLMSG_NEXT(message, left)) {
        if (message->nlmsg_seq != sequence_) continue;
        if (message->nlmsg_type == NLMSG_DONE || message->nlmsg_type == NLMSG_ERROR) {
          int error = 0;
          if (NLMSG_PAYLOAD(message, 0) >= sizeof(error)) memcpy(&error, NLMSG_DATA(message), sizeof(error));
          if (error && error != -ENOENT && error != -EOPNOTSUPP) throw SystemError(env_, -error, "dump", what);
          return;
        }
        each(message);
      }
    }
  }

 private:
  Napi::Env env_;
  UniqueFd socket_;
  std::unique_ptr<char[]> answer_;
  uint32_t sequence_ = 0;
};

std::map<int, Device> ReadDevices(Dump& dump) {
  struct {
    nlmsghdr header;
    ifinfomsg about;
    rtattr mask;
    uint32_t mask_value;
  } request = {};
  request.mask.rta_len = RTA_LENGTH(sizeof(request.mask_value));
  request.mask.rta_type = IFLA_EXT_MASK;
  request.mask_value = RTEXT_FILTER_SKIP_STATS;
  std::map<int, Device> devices;
  dump.Run(request, RTM_GETLINK, "RTM_GETLINK", [&](const nlmsghdr* message) {
    if (message->nlmsg_type != RTM_NEWLINK) return;
    auto* about = static_cast<const ifinfomsg*>(NLMSG_DATA(message));
    Device& device = devices[about->ifi_index];
    device.name = Attributes::Behind<ifinfomsg>(message).Text(IFLA_IFNAME);
    device.type = about->ifi_type;
    device.running = (about->ifi_flags & IFF_UP) && (about->ifi_flags & IFF_RUNNING);
  });
  return devices;
}

void ReadAddresses(Dump& dump, std::map<int, Device>& devices) {
  struct {
    nlmsghdr header;
    ifaddrmsg about;
  } request = {};
  dump.Run(request, RTM_GETADDR, "RTM_GETADDR", [&](const nlmsghdr* message) {
    if (message->nlmsg_type != RTM_NEWADDR) return;
    auto* about = static_cast<const ifaddrmsg*>(NLMSG_DATA(message));
    Attributes attributes = Attributes::Behind<ifaddrmsg>(message);
    // On a point-to-point device IFA_ADDRESS is the other end's.
    const rtattr* address = attributes.Find(IFA_LOCAL);
    if (!address) address = attributes.Find(IFA_ADDRESS);
    size_t size = about->ifa_family == AF_INET ? sizeof(in_addr) : sizeof(in6_addr);
    auto device = devices.find(static_cast<int>(about->ifa_index));
    if (device == devices.end() || !address || RTA_PAYLOAD(address) < size) return;
    char text[INET6_ADDRSTRLEN];
    if (inet_ntop(about->ifa_family, RTA_DATA(address), text, sizeof(text))) device->second.addresses.push_back(text);
  });
}

void ReadDefaultRoutes(Dump& dump, std::map<int, Device>& devices, uint8_t family) {
  struct {
    nlmsghdr header;
    rtmsg about;
  } request = {};
  request.about.rtm_family = family;
  request.about.rtm_table = RT_TABLE_MAIN;
  request.about.rtm_type = RTN_UNICAST;
  auto leaves_by = [&](int ifindex) {
    auto device = devices.find(ifindex);
    if (device != devices.end()) device->second.default_route = true;
  };
  dump.Run(request, RTM_GETROUTE, "RTM_GETROUTE", [&](const nlmsghdr* message) {
    auto* about = static_cast<const rtmsg*>(NLMSG_DATA(message));
    if (message->nlmsg_type != RTM_NEWROUTE || about->rtm_dst_len != 0 || about->rtm_type != RTN_UNICAST) return;
    if (about->rtm_table != RT_TABLE_MAIN) return;
    Attributes attributes = Attributes::Behind<rtmsg>(message);
    if (auto ifindex = attributes.Number(RTA_OIF)) leaves_by(static_cast<int>(*ifindex));
    const rtattr* hops = attributes.Find(RTA_MULTIPATH);
    if (!hops) return;
    auto* hop = static_cast<const rtnexthop*>(RTA_DATA(hops));
    for (int left = static_cast<int>(RTA_PAYLOAD(hops)); RTNH_OK(hop, left); hop = RTNH_NEXT(hop)) {
      leaves_by(hop->rtnh_ifindex);
      left -= static_cast<int>(RTNH_ALIGN(hop->rtnh_len));
    }
  });
}

}  // namespace

Napi::Value ReadNetwork(const Napi::CallbackInfo& info) {
  Napi::Env env = info.Env();
  Dump dump(env);
  std::map<int, Device> devices = ReadDevices(dump);
  ReadAddresses(dump, devices);
  ReadDefaultRoutes(dump, devices, AF_INET);
  ReadDefaultRoutes(dump, devices, AF_INET6);
  Napi::Array result = Napi::Array::New(env, devices.size());
  uint32_t at = 0;
  for (const auto& [ifindex, device] : devices) {
    Napi::HandleScope scope(env);
    Napi::Array addresses = Napi::Array::New(env, device.addresses.size());
    for (uint32_t i = 0; i < device.addresses.size(); i++) addresses.Set(i, device.addresses[i]);
    Napi::Object object = Napi::Object::New(env);
    object.Set("name", device.name);
    object.Set("ifindex", ifindex);
    object.Set("type", device.type);
    object.Set("running", device.running);
    object.Set("defaultRoute", device.default_route);
    object.Set("addresses", addresses);
    result.Set(at++, object);
  }
  return result;
}

}  // namespace waggle
