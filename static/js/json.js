// Reads and writes JSON without changing a number: what a double cannot hold exactly becomes
// a BigInt (integers) or a NumberText (the rest), and is written again with the same digits.

export class NumberText {
  constructor(text) { this.text = text; }
  toString() { return this.text; }
  valueOf() { return Number(this.text); }
}

const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const WHOLE = /^-?(?:0|[1-9]\d*)$/;
const STRING = /"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[\dA-Fa-f]{4}))*"/y;
const SPACE = /[ \t\n\r]*/y;

// The decimal value as sign, digits and exponent, so that 1.50 and 15e-1 are the same.
function canonical(text) {
  const [, sign, whole, part = "", exp = "0"] = /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/.exec(text);
  const digits = (whole + part).replace(/^0+/, "");
  const cut = digits.replace(/0+$/, "");
  if (cut === "") return "0";
  return sign + cut + "e" + (Number(exp) - part.length + digits.length - cut.length);
}

// exactNumber returns the value of a JSON number: a number when that keeps it, else BigInt or NumberText.
export function exactNumber(text) {
  const n = Number(text);
  if (Number.isFinite(n) && canonical(plain(n)) === canonical(text)) return n;
  return WHOLE.test(text) ? BigInt(text) : new NumberText(text);
}

const plain = (n) => (Object.is(n, -0) ? "0" : String(n));

class Reader {
  constructor(text) { this.text = text; this.at = 0; }

  fail(what) { throw new SyntaxError(`${what} at character ${this.at + 1}`); }
  match(re) {
    re.lastIndex = this.at;
    const m = re.exec(this.text);
    if (m) this.at = re.lastIndex;
    return m && m[0];
  }
  peek() { this.match(SPACE); return this.text[this.at]; }
  take(c) { if (this.peek() !== c) return false; this.at++; return true; }
  need(c) { if (!this.take(c)) this.fail(`"${c}" expected`); }
  word(w, value) { if (!this.text.startsWith(w, this.at)) this.fail("value expected"); this.at += w.length; return value; }

  value() {
    switch (this.peek()) {
      case "{": return this.object();
      case "[": return this.array();
      case '"': return this.string();
      case "t": return this.word("true", true);
      case "f": return this.word("false", false);
      case "n": return this.word("null", null);
      default: return this.number();
    }
  }
  number() {
    const text = this.match(NUMBER);
    if (!text) this.fail("value expected");
    return exactNumber(text);
  }
  string() {
    this.match(SPACE);
    const text = this.match(STRING);
    if (text === null) this.fail("text expected");
    return JSON.parse(text);
  }
  array() {
    const list = [];
    this.need("[");
    if (this.take("]")) return list;
    do list.push(this.value()); while (this.take(","));
    this.need("]");
    return list;
  }
  object() {
    const map = {};
    this.need("{");
    if (this.take("}")) return map;
    do {
      const key = this.string();
      this.need(":");
      // a member of that name must not become the prototype
      Object.defineProperty(map, key, { value: this.value(), enumerable: true, writable: true, configurable: true });
    } while (this.take(","));
    this.need("}");
    return map;
  }
}

// read parses one JSON text; it throws a SyntaxError that names the place.
export function read(text) {
  const r = new Reader(text);
  const value = r.value();
  if (r.peek() !== undefined) r.fail("end expected");
  return value;
}

// write is JSON.stringify for the values that read gives.
export function write(value, indent = 0, depth = 0) {
  if (value === null || value === undefined) return "null";
  if (typeof value === "bigint") return value.toString();
  if (value instanceof NumberText) return value.text;
  if (typeof value !== "object") return JSON.stringify(value);
  const isList = Array.isArray(value);
  const parts = isList
    ? value.map((v) => write(v, indent, depth + 1))
    : Object.entries(value).filter(([, v]) => v !== undefined).map(([k, v]) => JSON.stringify(k) + (indent ? ": " : ":") + write(v, indent, depth + 1));
  const [open, close] = isList ? "[]" : "{}";
  if (!parts.length) return open + close;
  if (!indent) return open + parts.join(",") + close;
  const pad = "\n" + " ".repeat(indent * (depth + 1));
  return open + pad + parts.join("," + pad) + "\n" + " ".repeat(indent * depth) + close;
}
