// Opens a trace with Perfetto's own trace processor, built for WebAssembly, and prints the rows of queries as JSON.
// node perfetto_reader.js FOLDER TRACE QUERY...: FOLDER holds engine_bundle.js and trace_processor.wasm.
"use strict";
const fs = require("fs");
const path = require("path");

const [folder, trace, ...queries] = process.argv.slice(2);
const BLOCK = 8 << 20;
const APPEND = 1, FINALIZE = 2, QUERY = 3;

// What a worker of a browser has, as far as the bundle asks for it.
class FileRequest {
  open(_method, name) { this.name = path.join(folder, path.basename(name)); }
  send() { this.response = new Uint8Array(fs.readFileSync(this.name)).buffer; }
}
const worker = { location: { href: "file:///" } };
const silent = { log() {}, warn() {}, error() {} };
const given = ["self", "WorkerGlobalScope", "importScripts", "XMLHttpRequest", "console", "process"];
new Function(...given, fs.readFileSync(path.join(folder, "engine_bundle.js"), "utf8"))(
  worker, {}, () => {}, FileRequest, silent, undefined);

// Just enough of protocol buffers for messages of a query.
function varint(number) {
  const bytes = [];
  for (; number > 127; number = Math.floor(number / 128)) bytes.push((number % 128) | 128);
  return Buffer.from([...bytes, number]);
}
const bytesField = (field, bytes) => Buffer.concat([varint(field * 8 + 2), varint(bytes.length), bytes]);
const numberField = (field, number) => Buffer.concat([varint(field * 8), varint(number)]);

class Reader {
  constructor(bytes) { this.bytes = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length); this.at = 0; }
  varint() {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = this.bytes[this.at++];
      value |= BigInt(byte & 127) << shift;
      if (byte < 128) return BigInt.asIntN(64, value);
    }
  }
  take(length) { this.at += length; return this.bytes.subarray(this.at - length, this.at); }
  *fields() {
    while (this.at < this.bytes.length) {
      const tag = Number(this.varint());
      const kind = tag % 8;
      yield [tag >> 3, kind === 0 ? this.varint() : kind === 1 ? this.take(8) : kind === 5 ? this.take(4) : this.take(Number(this.varint()))];
    }
  }
}
const varints = (bytes) => { const found = [], reader = new Reader(bytes); while (reader.at < bytes.length) found.push(reader.varint()); return found; };

let names = [], cells = [], failure = "";
function takeResult(bytes) {
  for (const [field, value] of new Reader(bytes).fields()) {
    if (field === 1) names.push(value.toString());
    else if (field === 2) failure = value.toString();
    else if (field === 3) {
      let kinds = [], numbers = [], doubles = [], texts = [];
      for (const [part, of] of new Reader(value).fields()) {
        if (part === 1) kinds = varints(of).map(Number);
        else if (part === 2) numbers = varints(of);
        else if (part === 3) for (let at = 0; at < of.length; at += 8) doubles.push(of.readDoubleLE(at));
        else if (part === 5) texts = of.toString().split("\0");
      }
      for (const kind of kinds) cells.push(kind === 1 ? null : kind === 2 ? Number(numbers.shift()) : kind === 3 ? doubles.shift() : texts.shift());
    }
  }
}
const port = {
  postMessage(bytes) {
    for (const [, message] of new Reader(bytes).fields())
      for (const [field, value] of new Reader(message).fields()) {
        if (field === 5) throw new Error(value.toString());
        if (field === 201) for (const [part, error] of new Reader(value).fields()) if (part === 2) failure = error.toString();
        if (field === 203) takeResult(value);
      }
  },
};

let sequence = 0;
function ask(method, argument = Buffer.alloc(0)) {
  const message = Buffer.concat([numberField(1, sequence++), numberField(2, method), argument]);
  port.onmessage({ data: new Uint8Array(bytesField(1, message)) });
  if (failure) throw new Error(failure);
}

setTimeout(() => {
  worker.onmessage({ data: port });
  const file = fs.openSync(trace), block = Buffer.alloc(BLOCK);
  for (let read; (read = fs.readSync(file, block)); ) ask(APPEND, bytesField(101, block.subarray(0, read)));
  ask(FINALIZE);
  const answers = queries.map((query) => {
    names = [], cells = [];
    ask(QUERY, bytesField(103, bytesField(1, Buffer.from(query))));
    const rows = [];
    while (cells.length) rows.push(cells.splice(0, names.length));
    return rows;
  });
  console.log(JSON.stringify(answers));
}, 0);
