import assert from "node:assert/strict";
import test from "node:test";
import { NumberText, exactNumber, read, write } from "../js/json.js";

test("every number keeps its value", () => {
  for (const text of ["0", "-1", "12", "3.5", "0.1", "18446744073709551615", "-9007199254740993", "9007199254740993", "0.1000000000000000055", "1e400", "-2.5e-400", "123456789.123456789123"]) {
    assert.equal(write(read(text)), text);
  }
});

test("a number that a double holds is a number", () => {
  for (const text of ["0", "1.0", "1.50", "15e-1", "1E3", "9007199254740992", "-0"]) assert.equal(typeof read(text), "number", text);
});

test("what a double would change is not a number", () => {
  assert.equal(read("9007199254740993"), 9007199254740993n);
  assert.ok(read("0.10000000000000000555") instanceof NumberText);
  assert.equal(String(exactNumber("18446744073709551615")), "18446744073709551615");
});

test("the rest reads as JSON.parse does", () => {
  for (const text of ['{"a":[1,2,{"b":null}],"c":"x\\u00e9\\n\\"","d":true,"e":false}', "[]", "{}", ' [ 1 , "a" ] ', '"\\ud83d\\ude00"']) {
    assert.deepEqual(read(text), JSON.parse(text));
  }
});

test("a member named __proto__ is a member", () => {
  const value = read('{"__proto__":{"bad":1}}');
  assert.equal(value.bad, undefined);
  assert.equal(write(value), '{"__proto__":{"bad":1}}');
});

test("what is no JSON is refused with its place", () => {
  for (const text of ["", "[1,]", "{a:1}", "01", "1.", "+1", "NaN", '"a', '"\t"', "[1 2]", "{} x", "nul"]) {
    assert.throws(() => read(text), /at character \d+/, text);
  }
});

test("writing keeps big numbers and leaves out what is undefined", () => {
  assert.equal(write({ a: 2n ** 64n - 1n, b: new NumberText("1e400"), c: undefined, d: [null, undefined] }), '{"a":18446744073709551615,"b":1e400,"d":[null,null]}');
});

test("writing in lines", () => {
  assert.equal(write({ a: [], b: { c: 1n } }, 2), '{\n  "a": [],\n  "b": {\n    "c": 1\n  }\n}');
});
