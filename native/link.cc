// SPDX-License-Identifier: Apache-2.0
#include "link.h"

#include <bpf/bpf.h>
#include <linux/bpf.h>

#include "kernel.h"
#include "program.h"

namespace waggle {

void BpfLink::Init(Napi::Env env) {
  Register(env, DefineClass(env, kName,
                            {
                                InstanceMethod<&BpfLink::Update>("update"),
                                InstanceMethod<&BpfLink::Detach>("detach"),
                                InstanceMethod<&BpfLink::PinAt>("pin"),
                                InstanceMethod<&BpfLink::Close>("close"),
                            }));
}

BpfLink::BpfLink(const Napi::CallbackInfo& info) : Handle(info) {}

Napi::Object BpfLink::Make(const Args& args, UniqueFd fd, std::string name) {
  LinkState state;
  state.fd = std::move(fd);
  state.name = std::move(name);
  Napi::Object link = New(args.env(), std::move(state));
  // On the object, not on its class: the engine checks the receiver of methods but not
  // that of a class's getters.
  link.DefineProperty(Napi::PropertyDescriptor::Accessor<&BpfLink::Info>("info", napi_enumerable));
  return link;
}

// Asked each time: update() changes the program, a removed device the ifindex.
Napi::Value BpfLink::Info(const Napi::CallbackInfo& info) {
  Args args(info, "info");
  Napi::Env env = info.Env();
  BpfLink& self = From(args, info.This(), "this");
  bpf_link_info facts = InfoOf<bpf_link_info>(args, self.state_.fd.get(), self.state_.name);
  // A tcx link has its ifindex where an xdp link has it.
  bool device = facts.type == BPF_LINK_TYPE_XDP || facts.type == kLinkTypeTcx;
  bool cgroup = facts.type == BPF_LINK_TYPE_CGROUP;
  Napi::Object about = Napi::Object::New(env);
  about.Set("id", Napi::Number::New(env, facts.id));
  about.Set("type", Napi::Number::New(env, facts.type));
  about.Set("programId", Napi::Number::New(env, facts.prog_id));
  about.Set("ifindex", Napi::Number::New(env, device ? facts.xdp.ifindex : 0));
  about.Set("cgroupId", Napi::Number::New(env, cgroup ? static_cast<double>(facts.cgroup.cgroup_id) : 0));
  about.Freeze();
  return about;
}

Napi::Value BpfLink::Update(const Napi::CallbackInfo& info) {
  Args args(info, "update");
  RequireOpen(args);
  BpfProgram& program = BpfProgram::From(args, info[0], "program");
  if (int error = bpf_link_update(state_.fd.get(), program.state().fd.get(), nullptr))
    throw SystemError(info.Env(), -error, "bpf_link_update", state_.name);
  return info.Env().Undefined();
}

Napi::Value BpfLink::Detach(const Napi::CallbackInfo& info) {
  Args args(info, "detach");
  RequireOpen(args);
  if (int error = bpf_link_detach(state_.fd.get()))
    throw SystemError(info.Env(), -error, "bpf_link_detach", state_.name);
  return info.Env().Undefined();
}

Napi::Value BpfLink::PinAt(const Napi::CallbackInfo& info) {
  Args args(info, "pin");
  RequireOpen(args);
  Pin(args, state_.fd.get(), args.GetString(0, "path"));
  return info.Env().Undefined();
}

Napi::Value BpfLink::Close(const Napi::CallbackInfo& info) {
  state_.fd.Reset();
  return info.Env().Undefined();
}

Napi::Value OpenLink(const Napi::CallbackInfo& info) {
  Args args(info, "openLink");
  std::string path = args.GetString(0, "path");
  UniqueFd fd = OpenPin(args, path, FdKind::kLink);
  return BpfLink::Make(args, std::move(fd), path);
}

}  // namespace waggle
