// SPDX-License-Identifier: Apache-2.0
#include "netlink_watch.h"

#include <arpa/inet.h>
#include <linux/filter.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <utility>

#include "args.h"
#include "errors.h"
#include "fd.h"
#include "watch.h"

namespace waggle {
namespace {

constexpr const char* kName = "rtnetlink";
constexpr unsigned kGroups =
    RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR | RTMGRP_IPV4_ROUTE | RTMGRP_IPV6_ROUTE;

// Routes that are no default routes wake nobody: a node learns of them by the thousand. The
// kernel reads the fields of a filter in network order.
sock_filter kFilter[] = {
    BPF_STMT(BPF_LD | BPF_H | BPF_ABS, offsetof(nlmsghdr, nlmsg_type)),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, htons(RTM_NEWROUTE), 1, 0),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, htons(RTM_DELROUTE), 0, 2),
    BPF_STMT(BPF_LD | BPF_B | BPF_ABS, NLMSG_HDRLEN + offsetof(rtmsg, rtm_dst_len)),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 1),
    BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
    BPF_STMT(BPF_RET | BPF_K, 0),
};

// Messages that one turn of the event loop takes at most: a storm must not keep it.
constexpr int kBatch = 1000;

class Listener : public Watched {
 public:
  Listener(Napi::Env env, UniqueFd socket) : Watched(env, "waggle:NetlinkWatch", kName), socket_(std::move(socket)) {}

 private:
  void OnReadable(int status) override {
    bool heard = false;
    for (int i = 0; i < kBatch; i++) {
      // Nothing is read of a message: whoever is told looks for himself. An error is news as
      // well: messages were lost (ENOBUFS), and reading it has cleared it.
      if (recv(socket_.get(), nullptr, 0, MSG_TRUNC | MSG_DONTWAIT) < 0 && (errno == EAGAIN || errno == EINTR)) break;
      heard = true;
    }
    // libuv stops at an error of the socket, which says no more than the above.
    if (status < 0) Listen();
    if (heard) Call({});
  }

  void Release() override { socket_.Reset(); }

  UniqueFd socket_;
};

}  // namespace

Napi::Value OpenNetlinkWatch(const Napi::CallbackInfo& info) {
  Args args(info, "openNetlinkWatch");
  Napi::Env env = info.Env();
  Napi::Function on_change = args.GetFunction(0, "onChange");
  UniqueFd socket(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
  if (!socket.valid()) throw SystemError(env, errno, "socket", kName);
  sock_fprog filter = {std::size(kFilter), kFilter};
  if (setsockopt(socket.get(), SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof(filter)))
    throw SystemError(env, errno, "SO_ATTACH_FILTER", kName);
  sockaddr_nl address = {};
  address.nl_family = AF_NETLINK;
  address.nl_groups = kGroups;
  if (bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)))
    throw SystemError(env, errno, "bind", kName);
  int fd = socket.get();
  return StartWatch(std::make_shared<Listener>(env, std::move(socket)), fd, on_change);
}

}  // namespace waggle
