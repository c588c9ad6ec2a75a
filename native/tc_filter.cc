// SPDX-License-Identifier: Apache-2.0
#include "tc_filter.h"

#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/netlink.h>
#include <linux/pkt_cls.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "errors.h"
#include "fd.h"
#include "netlink.h"

namespace waggle {
namespace {

// The kernel answers within the call; this bounds what must not happen.
constexpr timeval kPatience = {5, 0};

struct Request {
  nlmsghdr header;
  tcmsg filter;
  rtattr kind;
  char kind_name[4];
};
static_assert(sizeof(Request) == NLMSG_LENGTH(sizeof(tcmsg)) + RTA_LENGTH(sizeof("bpf")), "no padding");

Request AskFor(const FilterPlace& place) {
  Request request = {};
  request.header.nlmsg_len = sizeof(request);
  request.header.nlmsg_type = RTM_GETTFILTER;
  request.header.nlmsg_flags = NLM_F_REQUEST;
  request.filter.tcm_family = AF_UNSPEC;
  request.filter.tcm_ifindex = place.ifindex;
  request.filter.tcm_handle = place.handle;
  request.filter.tcm_parent = TC_H_MAKE(TC_H_CLSACT, place.ingress ? TC_H_MIN_INGRESS : TC_H_MIN_EGRESS);
  request.filter.tcm_info = TC_H_MAKE(static_cast<uint32_t>(place.priority) << 16, htons(ETH_P_ALL));
  request.kind.rta_len = RTA_LENGTH(sizeof(request.kind_name));
  request.kind.rta_type = TCA_KIND;
  memcpy(request.kind_name, "bpf", sizeof(request.kind_name));
  return request;
}

Filter Parse(const nlmsghdr* header) {
  Filter filter;
  Attributes options = Attributes::Behind<tcmsg>(header).Within(TCA_OPTIONS);
  filter.program_id = options.Number(TCA_BPF_ID).value_or(0);
  filter.program_name = options.Text(TCA_BPF_NAME);
  filter.program_name.resize(std::min(filter.program_name.size(), filter.program_name.find(":[")));
  return filter;
}

}  // namespace

std::optional<Filter> FindFilter(const Args& args, const FilterPlace& place) {
  UniqueFd netlink(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
  if (!netlink.valid()) throw SystemError(args.env(), errno, "socket", "rtnetlink");
  setsockopt(netlink.get(), SOL_SOCKET, SO_RCVTIMEO, &kPatience, sizeof(kPatience));
  Request request = AskFor(place);
  if (send(netlink.get(), &request, sizeof(request), 0) < 0) throw SystemError(args.env(), errno, "send", "rtnetlink");

  alignas(nlmsghdr) char answer[16 * 1024];
  ssize_t length = recv(netlink.get(), answer, sizeof(answer), 0);
  if (length < 0) throw SystemError(args.env(), errno, "recv", "rtnetlink");
  auto* header = reinterpret_cast<const nlmsghdr*>(answer);
  if (!NLMSG_OK(header, static_cast<size_t>(length))) throw SystemError(args.env(), EBADMSG, "recv", "rtnetlink");
  if (header->nlmsg_type == NLMSG_ERROR && NLMSG_PAYLOAD(header, 0) >= sizeof(nlmsgerr)) {
    int error = static_cast<const nlmsgerr*>(NLMSG_DATA(header))->error;
    // EINVAL: no clsact qdisc, or a filter of another kind.
    if (error == -ENOENT || error == -EINVAL) return std::nullopt;
    throw SystemError(args.env(), -error, "RTM_GETTFILTER", "ifindex " + std::to_string(place.ifindex));
  }
  if (header->nlmsg_type != RTM_NEWTFILTER || NLMSG_PAYLOAD(header, 0) < sizeof(tcmsg))
    throw SystemError(args.env(), EBADMSG, "RTM_GETTFILTER", "ifindex " + std::to_string(place.ifindex));
  return Parse(header);
}

}  // namespace waggle
