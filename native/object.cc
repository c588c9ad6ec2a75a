// SPDX-License-Identifier: Apache-2.0
#include "object.h"

#include <bpf/btf.h>
#include <linux/bpf.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "fd.h"
#include "file.h"
#include "map.h"
#include "program.h"

namespace waggle {
namespace {

// As libbpf names an object opened by path: the file's name up to its first dot.
std::string ObjectName(const std::string& path) {
  std::string base = path.substr(path.rfind('/') + 1);
  return base.substr(0, base.find('.'));
}

struct Variable {
  const char* section;
  uint32_t offset;
  uint32_t size;
};

// Where a .rodata* section holds the variable; section is null when none does.
Variable FindConstant(const btf* types, const std::string& name) {
  for (uint32_t id = 1; types && id < btf__type_cnt(types); id++) {
    const btf_type* type = btf__type_by_id(types, id);
    if (!type || !btf_is_datasec(type)) continue;
    const char* section = btf__name_by_offset(types, type->name_off);
    if (!section || strncmp(section, ".rodata", 7) != 0) continue;
    const btf_var_secinfo* variables = btf_var_secinfos(type);
    for (int i = 0; i < btf_vlen(type); i++) {
      const btf_type* variable = btf__type_by_id(types, variables[i].type);
      const char* text = variable ? btf__name_by_offset(types, variable->name_off) : nullptr;
      if (text && name == text) return {section, variables[i].offset, variables[i].size};
    }
  }
  return {};
}

// What differs between a map as the object declares it and an existing one; empty: nothing.
std::string ShapeDifference(const bpf_map* declared, const MapState& existing) {
  std::string differences;
  auto compare = [&](const char* what, uint32_t wanted, uint32_t found) {
    if (wanted == found) return;
    if (!differences.empty()) differences += ", ";
    differences += std::string(what) + " " + std::to_string(wanted) + " (existing: " + std::to_string(found) + ")";
  };
  compare("type", bpf_map__type(declared), existing.type);
  compare("key_size", bpf_map__key_size(declared), existing.key_size);
  compare("value_size", bpf_map__value_size(declared), existing.value_size);
  compare("max_entries", bpf_map__max_entries(declared), existing.max_entries);
  compare("map_flags", bpf_map__map_flags(declared), existing.flags);
  return differences;
}

// While this lives, signals wait. One that is pending makes the verifier give up (EAGAIN), and
// libbpf tries five times only: a timer's signals, a profiler's say, come more often than that.
class SignalsHeld {
 public:
  SignalsHeld() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before_);
  }
  ~SignalsHeld() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsHeld(const SignalsHeld&) = delete;
  SignalsHeld& operator=(const SignalsHeld&) = delete;

 private:
  sigset_t before_;
};

int LoadUninterrupted(bpf_object* object) {
  SignalsHeld held;
  return bpf_object__load(object);
}

}  // namespace

void BpfObject::Init(Napi::Env env) {
  Register(env, DefineClass(env, kName,
                            {
                                InstanceMethod<&BpfObject::MapNames>("mapNames"),
                                InstanceMethod<&BpfObject::ProgramNames>("programNames"),
                                InstanceMethod<&BpfObject::SetMaxEntries>("setMaxEntries"),
                                InstanceMethod<&BpfObject::ReuseMap>("reuseMap"),
                                InstanceMethod<&BpfObject::SetConstant>("setConstant"),
                                InstanceMethod<&BpfObject::SetAutoload>("setAutoload"),
                                InstanceMethod<&BpfObject::Load>("load"),
                                InstanceMethod<&BpfObject::Map>("map"),
                                InstanceMethod<&BpfObject::Program>("program"),
                                InstanceMethod<&BpfObject::Close>("close"),
                            }));
}

BpfObject::BpfObject(const Napi::CallbackInfo& info) : Handle(info) {}

Napi::Value OpenObject(const Napi::CallbackInfo& info) {
  Args args(info, "openObject");
  std::string path = args.GetString(0, "path");
  ObjectState state;
  state.name = ObjectName(path);
  state.elf = ReadFile(args, path);

  LIBBPF_OPTS(bpf_object_open_opts, options, .object_name = state.name.c_str());
  LogCapture log;
  state.object.reset(bpf_object__open_mem(state.elf.data(), state.elf.size(), &options));
  if (!state.object) throw SystemError(info.Env(), errno, "bpf_object__open", path, log.text());
  bpf_map* map = nullptr;
  while ((map = bpf_object__next_map(state.object.get(), map))) {
    state.maps.emplace_back(bpf_map__name(map), map);
    // What a map's declaration says of pinning is libbpf's business no more: the caller
    // pins and reuses.
    bpf_map__set_pin_path(map, nullptr);
  }
  return BpfObject::New(info.Env(), std::move(state));
}

void BpfObject::RequireBeforeLoad(const Args& args) const {
  RequireOpen(args);
  if (state_.tried) throw SystemError(args.env(), EBUSY, args.function(), state_.name);
}

void BpfObject::RequireLoaded(const Args& args) const {
  RequireOpen(args);
  if (!state_.loaded) throw SystemError(args.env(), EINVAL, args.function(), state_.name, "the object is not loaded");
}

bpf_map* BpfObject::FindMap(const Args& args, const std::string& name) const {
  for (const auto& [known, map] : state_.maps)
    if (known == name) return map;
  throw SystemError(args.env(), ENOENT, args.function(), name, state_.name + " has no such map");
}

bpf_program* BpfObject::FindProgram(const Args& args, const std::string& name) const {
  bpf_program* program = bpf_object__find_program_by_name(state_.object.get(), name.c_str());
  if (!program) throw SystemError(args.env(), ENOENT, args.function(), name, state_.name + " has no such program");
  return program;
}

Napi::Value BpfObject::MapNames(const Napi::CallbackInfo& info) {
  Args args(info, "mapNames");
  RequireOpen(args);
  Napi::Array names = Napi::Array::New(info.Env());
  for (const auto& [name, map] : state_.maps) names.Set(names.Length(), Napi::String::New(info.Env(), name));
  return names;
}

Napi::Value BpfObject::ProgramNames(const Napi::CallbackInfo& info) {
  Args args(info, "programNames");
  RequireOpen(args);
  Napi::Array names = Napi::Array::New(info.Env());
  bpf_program* program = nullptr;
  while ((program = bpf_object__next_program(state_.object.get(), program)))
    names.Set(names.Length(), Napi::String::New(info.Env(), bpf_program__name(program)));
  return names;
}

Napi::Value BpfObject::SetMaxEntries(const Napi::CallbackInfo& info) {
  Args args(info, "setMaxEntries");
  RequireBeforeLoad(args);
  std::string name = args.GetString(0, "map");
  uint32_t entries = args.GetUint32(1, "entries", 1);
  if (int error = bpf_map__set_max_entries(FindMap(args, name), entries))
    throw SystemError(info.Env(), -error, "bpf_map__set_max_entries", name);
  return info.Env().Undefined();
}

Napi::Value BpfObject::ReuseMap(const Napi::CallbackInfo& info) {
  Args args(info, "reuseMap");
  RequireBeforeLoad(args);
  std::string name = args.GetString(0, "map");
  BpfMap& existing = BpfMap::From(args, info[1], "existing");
  bpf_map* map = FindMap(args, name);
  std::string difference = ShapeDifference(map, existing.state());
  if (!difference.empty()) throw SystemError(info.Env(), EINVAL, "reuseMap", name, difference);
  LogCapture log;
  if (int error = bpf_map__reuse_fd(map, existing.state().fd.get()))
    throw SystemError(info.Env(), -error, "bpf_map__reuse_fd", name, log.text());
  return info.Env().Undefined();
}

Napi::Value BpfObject::SetConstant(const Napi::CallbackInfo& info) {
  Args args(info, "setConstant");
  Napi::Env env = info.Env();
  RequireBeforeLoad(args);
  std::string name = args.GetString(0, "variable");
  Bytes bytes = args.GetBytes(1, "bytes");
  Variable variable = FindConstant(bpf_object__btf(state_.object.get()), name);
  if (!variable.section)
    throw SystemError(env, ENOENT, "setConstant", name, state_.name + " has no such constant in .rodata*");
  if (bytes.size != variable.size)
    throw OutOfRange(env, "setConstant",
                     name + " has " + std::to_string(variable.size) + " bytes, not " + std::to_string(bytes.size));

  // Found by the section's name; written before load, as afterwards its memory is read-only.
  bpf_map* section = bpf_object__find_map_by_name(state_.object.get(), variable.section);
  size_t size = 0;
  void* memory = section ? const_cast<void*>(bpf_map__initial_value(section, &size)) : nullptr;
  if (!memory || variable.offset > size || variable.size > size - variable.offset)
    throw SystemError(env, EINVAL, "bpf_map__initial_value", name);
  memcpy(static_cast<char*>(memory) + variable.offset, bytes.data, bytes.size);
  return env.Undefined();
}

Napi::Value BpfObject::SetAutoload(const Napi::CallbackInfo& info) {
  Args args(info, "setAutoload");
  RequireBeforeLoad(args);
  std::string name = args.GetString(0, "program");
  bool load = args.GetBool(1, "load");
  if (int error = bpf_program__set_autoload(FindProgram(args, name), load))
    throw SystemError(info.Env(), -error, "bpf_program__set_autoload", name);
  return info.Env().Undefined();
}

Napi::Value BpfObject::Load(const Napi::CallbackInfo& info) {
  Args args(info, "load");
  RequireBeforeLoad(args);
  state_.tried = true;
  // libbpf raises RLIMIT_MEMLOCK itself where the kernel still counts by it.
  LogCapture log;
  if (int error = LoadUninterrupted(state_.object.get()))
    throw SystemError(info.Env(), -error, "bpf_object__load", state_.name, log.text());
  state_.loaded = true;
  return info.Env().Undefined();
}

Napi::Value BpfObject::Map(const Napi::CallbackInfo& info) {
  Args args(info, "map");
  RequireLoaded(args);
  std::string name = args.GetString(0, "name");
  UniqueFd fd = UniqueFd::Duplicate(bpf_map__fd(FindMap(args, name)));
  if (!fd.valid()) throw SystemError(info.Env(), errno, "fcntl", name);
  return BpfMap::Make(args, std::move(fd));
}

Napi::Value BpfObject::Program(const Napi::CallbackInfo& info) {
  Args args(info, "program");
  RequireLoaded(args);
  std::string name = args.GetString(0, "name");
  int borrowed = bpf_program__fd(FindProgram(args, name));
  if (borrowed < 0) throw SystemError(info.Env(), ENOENT, "program", name, "it was left out of the load");
  UniqueFd fd = UniqueFd::Duplicate(borrowed);
  if (!fd.valid()) throw SystemError(info.Env(), errno, "fcntl", name);
  return BpfProgram::Make(args, std::move(fd));
}

Napi::Value BpfObject::Close(const Napi::CallbackInfo& info) {
  state_.object.reset();
  state_.maps.clear();
  state_.elf = {};
  return info.Env().Undefined();
}

}  // namespace waggle
