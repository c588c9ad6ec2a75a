// SPDX-License-Identifier: Apache-2.0
#include "map.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/bpf.h>

#include <cerrno>

#include "bytes.h"
#include "kernel.h"

namespace waggle {
namespace {

bool IsPerCpu(uint32_t type) {
  return type == BPF_MAP_TYPE_PERCPU_HASH || type == BPF_MAP_TYPE_PERCPU_ARRAY ||
         type == BPF_MAP_TYPE_LRU_PERCPU_HASH || type == BPF_MAP_TYPE_PERCPU_CGROUP_STORAGE;
}

Napi::Object InfoObject(Napi::Env env, const MapState& state, uint32_t id) {
  Napi::Object object = Napi::Object::New(env);
  object.Set("name", state.name);
  object.Set("id", Napi::Number::New(env, id));
  object.Set("type", Napi::Number::New(env, state.type));
  object.Set("keySize", Napi::Number::New(env, state.key_size));
  object.Set("valueSize", Napi::Number::New(env, state.value_size));
  object.Set("maxEntries", Napi::Number::New(env, state.max_entries));
  object.Set("flags", Napi::Number::New(env, state.flags));
  object.Freeze();
  return object;
}

// Some maps have no key (queues): the kernel wants a null pointer then.
const void* OrNull(const Bytes& bytes) { return bytes.size ? bytes.data : nullptr; }

}  // namespace

void BpfMap::Init(Napi::Env env) {
  Register(env, DefineClass(env, kName,
                            {
                                InstanceMethod<&BpfMap::Lookup>("lookup"),
                                InstanceMethod<&BpfMap::Update>("update"),
                                InstanceMethod<&BpfMap::Delete>("delete"),
                                InstanceMethod<&BpfMap::UpdateBatch>("updateBatch"),
                                InstanceMethod<&BpfMap::DeleteBatch>("deleteBatch"),
                                InstanceMethod<&BpfMap::Entries>("entries"),
                                InstanceMethod<&BpfMap::Mmap>("mmap"),
                                InstanceMethod<&BpfMap::PinAt>("pin"),
                                InstanceMethod<&BpfMap::Close>("close"),
                            }));
}

BpfMap::BpfMap(const Napi::CallbackInfo& info) : Handle(info) {}

Napi::Object BpfMap::Make(const Args& args, UniqueFd fd) {
  Napi::Env env = args.env();
  bpf_map_info facts = InfoOf<bpf_map_info>(args, fd.get(), "map");
  MapState state;
  state.name = facts.name;
  state.type = facts.type;
  state.key_size = facts.key_size;
  state.value_size = facts.value_size;
  state.max_entries = facts.max_entries;
  state.flags = facts.map_flags;
  state.user_value_size = facts.value_size;
  if (IsPerCpu(facts.type)) {
    int cpus = libbpf_num_possible_cpus();
    if (cpus < 0) throw SystemError(env, -cpus, "libbpf_num_possible_cpus", state.name);
    state.user_value_size = (size_t{facts.value_size} + 7) / 8 * 8 * static_cast<size_t>(cpus);
  }
  state.fd = std::move(fd);

  Napi::Object about = InfoObject(env, state, facts.id);
  Napi::Number user_value_size = Napi::Number::New(env, static_cast<double>(state.user_value_size));
  Napi::Object map = New(env, std::move(state));
  map.DefineProperties({
      Napi::PropertyDescriptor::Value("info", about, napi_enumerable),
      Napi::PropertyDescriptor::Value("userValueSize", user_value_size, napi_enumerable),
  });
  return map;
}

Napi::Value BpfMap::Lookup(const Napi::CallbackInfo& info) {
  Args args(info, "lookup");
  RequireOpen(args);
  Bytes key = args.GetBytes(0, "key", state_.key_size);
  ByteBuffer value(info.Env(), "lookup", state_.name.c_str());
  value.Reserve(state_.user_value_size);
  int error = bpf_map_lookup_elem(state_.fd.get(), OrNull(key), value.data());
  if (error == -ENOENT) return info.Env().Undefined();
  if (error) throw SystemError(info.Env(), -error, "bpf_map_lookup_elem", state_.name);
  return value.Take(state_.user_value_size);
}

Napi::Value BpfMap::Update(const Napi::CallbackInfo& info) {
  Args args(info, "update");
  RequireOpen(args);
  Bytes key = args.GetBytes(0, "key", state_.key_size);
  Bytes value = args.GetBytes(1, "value", state_.user_value_size);
  uint32_t flags = args.absent(2) ? uint32_t{BPF_ANY} : args.GetUint32(2, "flags", BPF_ANY, BPF_EXIST);
  int error = bpf_map_update_elem(state_.fd.get(), OrNull(key), OrNull(value), flags);
  if (error) throw SystemError(info.Env(), -error, "bpf_map_update_elem", state_.name);
  return info.Env().Undefined();
}

Napi::Value BpfMap::Delete(const Napi::CallbackInfo& info) {
  Args args(info, "delete");
  RequireOpen(args);
  Bytes key = args.GetBytes(0, "key", state_.key_size);
  int error = bpf_map_delete_elem(state_.fd.get(), OrNull(key));
  if (error && error != -ENOENT) throw SystemError(info.Env(), -error, "bpf_map_delete_elem", state_.name);
  return Napi::Boolean::New(info.Env(), error == 0);
}

Napi::Value BpfMap::PinAt(const Napi::CallbackInfo& info) {
  Args args(info, "pin");
  RequireOpen(args);
  Pin(args, state_.fd.get(), args.GetString(0, "path"));
  return info.Env().Undefined();
}

Napi::Value BpfMap::Close(const Napi::CallbackInfo& info) {
  state_.fd.Reset();
  return info.Env().Undefined();
}

Napi::Value OpenMap(const Napi::CallbackInfo& info) {
  Args args(info, "openMap");
  return BpfMap::Make(args, OpenPin(args, args.GetString(0, "path"), FdKind::kMap));
}

Napi::Value CreateMap(const Napi::CallbackInfo& info) {
  Args args(info, "createMap");
  Napi::Env env = info.Env();
  Napi::Object options = args.GetObject(0, "options");
  uint32_t type = args.ToUint32(options.Get("type"), "type", 0, UINT32_MAX);
  std::string name = args.ToText(options.Get("name"), "name");
  uint32_t key_size = args.ToUint32(options.Get("keySize"), "keySize", 0, UINT32_MAX);
  uint32_t value_size = args.ToUint32(options.Get("valueSize"), "valueSize", 0, UINT32_MAX);
  uint32_t max_entries = args.ToUint32(options.Get("maxEntries"), "maxEntries", 0, UINT32_MAX);
  Napi::Value given_flags = options.Get("flags");
  uint32_t flags = given_flags.IsUndefined() ? 0 : args.ToUint32(given_flags, "flags", 0, UINT32_MAX);
  if (name.size() >= BPF_OBJ_NAME_LEN)
    throw OutOfRange(env, "createMap",
                     "name must have at most " + std::to_string(BPF_OBJ_NAME_LEN - 1) + " characters");

  LIBBPF_OPTS(bpf_map_create_opts, create, .map_flags = flags);
  LogCapture log;
  UniqueFd fd(
      bpf_map_create(static_cast<bpf_map_type>(type), name.c_str(), key_size, value_size, max_entries, &create));
  if (!fd.valid()) throw SystemError(env, errno, "bpf_map_create", name, log.text());
  return BpfMap::Make(args, std::move(fd));
}

}  // namespace waggle
