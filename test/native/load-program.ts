/** Loads the addon from a bundle and says which libbpf is in it; run by load-native.test.ts. */
import { loadNative } from '../../src/ebpf/load-native.js'

console.log(loadNative().libbpfVersion)
