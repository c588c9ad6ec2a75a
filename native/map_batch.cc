// SPDX-License-Identifier: Apache-2.0
//
// Many entries in one call: about a third of the price of one call each. Maps without
// batch operations (ENOTSUPP) are walked entry by entry.
#include <bpf/bpf.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "bytes.h"
#include "kernel.h"
#include "map.h"

namespace waggle {
namespace {

// Elements to a system call. The price of an element is flat from 256 on; a call of this
// size stays below a few milliseconds.
constexpr uint32_t kChunk = 4096;

// BPF_DO_BATCH's answer for a map type without the operation; not in user-space headers.
constexpr int kNoBatch = 524;

// A key that vanished beside us, too often in a row: EINTR or EAGAIN, by kernel.
constexpr int kRetries = 100;

// Both arrays grow together; what is beyond `count` is room.
class EntryBuffer {
 public:
  EntryBuffer(Napi::Env env, const MapState& map)
      : map_(map), keys_(env, "entries", map.name.c_str()), values_(env, "entries", map.name.c_str()) {}

  void Reserve(size_t entries) {
    if (entries <= capacity_) return;
    // Doubled, but never to much more than there can be.
    size_t wanted = std::max(entries, std::min(capacity_ * 2, size_t{map_.max_entries} + kChunk));
    keys_.Reserve(wanted * map_.key_size);
    values_.Reserve(wanted * map_.user_value_size);
    capacity_ = wanted;
  }
  uint8_t* key(size_t index) { return keys_.data() + index * map_.key_size; }
  uint8_t* value(size_t index) { return values_.data() + index * map_.user_value_size; }

  Napi::Object Take(Napi::Env env, size_t count) {
    Napi::Object result = Napi::Object::New(env);
    result.Set("keys", keys_.Take(count * map_.key_size));
    result.Set("values", values_.Take(count * map_.user_value_size));
    result.Set("count", Napi::Number::New(env, static_cast<double>(count)));
    return result;
  }

 private:
  const MapState& map_;
  ByteBuffer keys_;
  ByteBuffer values_;
  size_t capacity_ = 0;
};

// Fills from where `count` stands; returns 0 at the map's end or a negative errno.
int WalkByBatch(const MapState& map, EntryBuffer& entries, size_t& count) {
  // A hash's position is a bucket number, that of arrays and tries a key.
  std::vector<uint8_t> position(std::max<size_t>(map.key_size, sizeof(uint32_t)));
  std::vector<uint8_t> next(position.size());
  bool started = false;
  int retries = 0;
  uint32_t chunk = std::min(kChunk, std::max(map.max_entries, 16u));
  while (true) {
    entries.Reserve(count + chunk);
    uint32_t done = chunk;
    int error = bpf_map_lookup_batch(map.fd.get(), started ? position.data() : nullptr, next.data(), entries.key(count),
                                     entries.value(count), &done, nullptr);
    if (error == -ENOSPC) {
      // One bucket holds more than we asked for; nothing was read.
      if (chunk > map.max_entries) return error;
      chunk *= 2;
      continue;
    }
    if (error && error != -ENOENT && error != -EINTR && error != -EAGAIN) return error;
    if (error == -ENOENT) {
      count += done;
      return 0;
    }
    if (error && done == chunk) done = 0;  // refused before the first element
    if (error && ++retries > kRetries) return error;
    if (!error) retries = 0;
    count += done;
    if (done || !error) {
      position.swap(next);
      started = true;
    }
  }
}

int WalkByKey(const MapState& map, EntryBuffer& entries, size_t& count) {
  if (map.key_size == 0) return -kNoBatch;
  std::vector<uint8_t> key(map.key_size);
  // A deleted key sends the walk back to the first one: bounded, not endless.
  size_t steps = size_t{map.max_entries} * 4 + kRetries;
  for (bool started = false; steps > 0; steps--) {
    entries.Reserve(count + 1);
    int error = bpf_map_get_next_key(map.fd.get(), started ? key.data() : nullptr, entries.key(count));
    if (error == -ENOENT) return 0;
    if (error) return error;
    std::copy_n(entries.key(count), map.key_size, key.data());
    started = true;
    error = bpf_map_lookup_elem(map.fd.get(), key.data(), entries.value(count));
    if (!error)
      count++;
    else if (error != -ENOENT)
      return error;
  }
  return -EAGAIN;
}

// Count of entries in `keys`; throws when they are not whole.
size_t CountOf(const Args& args, const MapState& map, const Bytes& keys) {
  if (map.key_size == 0) throw SystemError(args.env(), kNoBatch, args.function(), map.name);
  if (keys.size % map.key_size)
    throw OutOfRange(
        args.env(), args.function(),
        "keys must be a multiple of " + std::to_string(map.key_size) + " bytes, not " + std::to_string(keys.size));
  return keys.size / map.key_size;
}

// Of a failed batch call the kernel says how many it did, or leaves the count as it was.
uint32_t Progress(uint32_t reported, uint32_t asked) { return reported < asked ? reported : 0; }

}  // namespace

Napi::Value BpfMap::UpdateBatch(const Napi::CallbackInfo& info) {
  Args args(info, "updateBatch");
  Napi::Env env = info.Env();
  RequireOpen(args);
  Bytes keys = args.GetBytes(0, "keys");
  size_t count = CountOf(args, state_, keys);
  Bytes values = args.GetBytes(1, "values", count * state_.user_value_size);

  size_t done = 0;
  const char* syscall = "bpf_map_update_batch";
  int error = 0;
  while (done < count && !error) {
    uint32_t asked = static_cast<uint32_t>(std::min<size_t>(kChunk, count - done));
    uint32_t written = asked;
    error = bpf_map_update_batch(state_.fd.get(), keys.data + done * state_.key_size,
                                 values.data + done * state_.user_value_size, &written, nullptr);
    done += error ? Progress(written, asked) : asked;
  }
  if (error == -kNoBatch) {
    syscall = "bpf_map_update_elem";
    for (error = 0; done < count && !error; done += error ? 0 : 1)
      error = bpf_map_update_elem(state_.fd.get(), keys.data + done * state_.key_size,
                                  values.data + done * state_.user_value_size, BPF_ANY);
  }
  if (error) {
    Napi::Error failure = SystemError(env, -error, syscall, state_.name);
    failure.Value().Set("done", Napi::Number::New(env, static_cast<double>(done)));
    throw failure;
  }
  return env.Undefined();
}

Napi::Value BpfMap::DeleteBatch(const Napi::CallbackInfo& info) {
  Args args(info, "deleteBatch");
  Napi::Env env = info.Env();
  RequireOpen(args);
  Bytes keys = args.GetBytes(0, "keys");
  size_t count = CountOf(args, state_, keys);

  size_t at = 0;
  size_t existed = 0;
  bool one_by_one = false;
  while (at < count) {
    uint32_t asked = static_cast<uint32_t>(std::min<size_t>(one_by_one ? 1 : kChunk, count - at));
    uint32_t deleted = asked;
    uint8_t* from = keys.data + at * state_.key_size;
    int error = one_by_one ? bpf_map_delete_elem(state_.fd.get(), from)
                           : bpf_map_delete_batch(state_.fd.get(), from, &deleted, nullptr);
    if (error == -kNoBatch && !one_by_one) {
      one_by_one = true;
      continue;
    }
    if (error && error != -ENOENT)
      throw SystemError(env, -error, one_by_one ? "bpf_map_delete_elem" : "bpf_map_delete_batch", state_.name);
    // It stops at the first absent key, which is stepped over.
    uint32_t progress = error ? (one_by_one ? 0 : Progress(deleted, asked)) : asked;
    existed += progress;
    at += progress + (error ? 1 : 0);
  }
  return Napi::Number::New(env, static_cast<double>(existed));
}

Napi::Value BpfMap::Entries(const Napi::CallbackInfo& info) {
  Args args(info, "entries");
  RequireOpen(args);
  EntryBuffer entries(info.Env(), state_);
  size_t count = 0;
  const char* syscall = "bpf_map_lookup_batch";
  int error = WalkByBatch(state_, entries, count);
  if (error == -kNoBatch || error == -EINVAL) {
    // EINVAL: older kernels, for per-CPU arrays.
    syscall = "bpf_map_get_next_key";
    count = 0;
    error = WalkByKey(state_, entries, count);
  }
  if (error) throw SystemError(info.Env(), -error, syscall, state_.name);
  return entries.Take(info.Env(), count);
}

}  // namespace waggle
