// @NAME@: made by dlc.  Runs @NAME@.wasm with the weights of @NAME@.safetensors, and needs no other module.
//
//     const m = await load();
//     const results = m.run({x: new Float32Array(6)}, {B: 2});

// Of an array: its name, its type, that of its numbers in C, its axes, and whether a call writes it.
const program = @TABLE@;

const numbers = {
  float: Float32Array, double: Float64Array, int8_t: Int8Array, uint8_t: Uint8Array,
  int16_t: Int16Array, uint16_t: Uint16Array, int32_t: Int32Array, int64_t: BigInt64Array,
};
const stored = {
  BOOL: Uint8Array, U8: Uint8Array, I8: Int8Array, I16: Int16Array, I32: Int32Array, I64: BigInt64Array,
  F16: Uint16Array, BF16: Uint16Array, F32: Float32Array, F64: Float64Array,
};
const PAGE = 65536;
const aligned = (at) => Math.ceil(at / 64) * 64;

// The bytes of a file: of its URL, of an answer of fetch, or as they are.
async function read(from) {
  if (from instanceof ArrayBuffer) return new Uint8Array(from);
  if (ArrayBuffer.isView(from)) return new Uint8Array(from.buffer, from.byteOffset, from.byteLength);
  if (!(from instanceof Response)) {
    const url = new URL(from, import.meta.url);
    if (url.protocol === "file:") return new Uint8Array(await (await import("node:fs/promises")).readFile(url));
    from = await fetch(url);
  }
  if (!from.ok) throw new Error(`${from.url}: ${from.status} ${from.statusText}`);
  return new Uint8Array(await from.arrayBuffer());
}

// The arrays of a safetensors file and its metadata: {arrays: {name: {array, shape}}, metadata}.
export function tensors(bytes) {
  const length = bytes.length < 8 ? NaN : Number(new DataView(bytes.buffer, bytes.byteOffset).getBigUint64(0, true));
  if (!(length <= bytes.length - 8)) throw new Error("this is no file of safetensors");
  const table = JSON.parse(new TextDecoder().decode(bytes.subarray(8, 8 + length)));
  const arrays = {};
  for (const [name, row] of Object.entries(table)) {
    if (name === "__metadata__" || !stored[row.dtype]) continue;
    const [begin, end] = row.data_offsets.map((offset) => 8 + length + offset);
    arrays[name] = { shape: row.shape, array: new stored[row.dtype](bytes.slice(begin, end).buffer) };
  }
  return { arrays, metadata: table.__metadata__ ?? {} };
}

// wasm, weights: URLs, answers of fetch, or bytes.
export async function load({ wasm = "@NAME@.wasm", weights = "@NAME@.safetensors" } = {}) {
  const [code, file] = await Promise.all([read(wasm), read(weights)]);
  return new Model((await WebAssembly.instantiate(code, {})).instance.exports, file);
}

class Model {
  constructor(wasm, file) {
    this.wasm = wasm;
    this.program = program;
    const pointers = aligned(wasm.__heap_base.value), at = aligned(pointers + 4 * program.weights);
    this.base = at; // where arrays may be
    this.given = {}; // inputs that the file has values for, such as a state
    if (program.weights) {
      this.base = aligned(at + file.length);
      this.reserve(this.base);
      new Uint8Array(wasm.memory.buffer).set(file, at);
      this.check(wasm.@NAME@_bind(pointers, at, file.length));
      this.weights = [pointers];
    } else {
      this.weights = [];
    }
    const { arrays } = tensors(file);
    for (const [name] of program.inputs) if (arrays[name]) this.given[name] = arrays[name].array;
  }

  // Memory up to this address, and no page more.
  reserve(end) {
    const more = Math.ceil(end / PAGE) - this.wasm.memory.buffer.byteLength / PAGE;
    try {
      if (more > 0) this.wasm.memory.grow(more);
    } catch {
      throw new RangeError(`there is no memory for ${end} bytes`);
    }
  }

  check(status) {
    if (status === 0) return;
    const bytes = new Uint8Array(this.wasm.memory.buffer, this.wasm.@NAME@_message(status));
    throw new Error(new TextDecoder().decode(bytes.slice(0, bytes.indexOf(0))));
  }

  // The sizes as @NAME@_run takes them.
  sizesOf(sizes) {
    for (const name of Object.keys(sizes)) {
      if (!program.sizes.includes(name)) throw new TypeError(`there is no size ${name}`);
    }
    return program.sizes.map((name) => {
      if (!Number.isSafeInteger(sizes[name])) throw new TypeError(`the size ${name} is missing or no integer`);
      return BigInt(sizes[name]);
    });
  }

  // The bytes of the workspace.
  workspace(sizes = {}) {
    const bytes = this.wasm.@NAME@_workspace(...this.sizesOf(sizes)) >>> 0;
    if (!bytes) this.check(1);
    return bytes;
  }

  // Of inputs, then of outputs: {name, Kind, count, shape, written}.
  arrays(sizes = {}) {
    this.workspace(sizes);
    const all = [...program.inputs, ...program.outputs];
    const length = all.reduce((sum, row) => sum + 1 + row[3], 0);
    this.reserve(this.base + 8 * length);
    this.wasm.@NAME@_shapes(...this.sizesOf(sizes), this.base);
    const table = [...new BigInt64Array(this.wasm.memory.buffer, this.base, length)].map(Number);
    return all.map(([name, , kind, rank, written]) => {
      const [count, ...shape] = table.splice(0, 1 + rank);
      return { name, Kind: numbers[kind], count, shape, written };
    });
  }

  // inputs: typed arrays by name.  Returns those of the outputs, and of inputs that the call writes to, by name.
  run(inputs = {}, sizes = {}) {
    const all = this.arrays(sizes), given = { ...this.given, ...inputs };
    for (const name of Object.keys(inputs)) {
      if (!program.inputs.some(([known]) => known === name)) throw new TypeError(`there is no input ${name}`);
    }
    let at = this.base;
    for (const [k, one] of all.entries()) {
      const array = given[one.name];
      if (k < program.inputs.length && !(array instanceof one.Kind && array.length === one.count)) {
        const is = array === undefined ? "it is missing" : `it is a ${array?.constructor?.name} of ${array?.length}`;
        throw new TypeError(`${one.name} is a ${one.Kind.name} of ${one.count} numbers, [${one.shape}]: ${is}`);
      }
      one.at = at;
      at = aligned(at + one.count * one.Kind.BYTES_PER_ELEMENT);
    }
    this.reserve(at + this.workspace(sizes));
    const memory = this.wasm.memory.buffer;
    for (const one of all.slice(0, program.inputs.length)) {
      new one.Kind(memory, one.at, one.count).set(given[one.name]);
    }
    const places = all.map((one) => one.at);
    this.check(this.wasm.@NAME@_run(...this.weights, ...this.sizesOf(sizes), ...places, at, 0));
    const results = {};
    for (const one of all) if (one.written) results[one.name] = new one.Kind(memory, one.at, one.count).slice();
    return results;
  }
}
