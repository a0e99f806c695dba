import assert from "node:assert/strict";
import test from "node:test";
import { read, write } from "../js/json.js";
import { fault, held, initial, isSeed, nextSeed, randomSeed, sent } from "../js/value.js";

const input = (text) => read(text);
const seed = input('{"name":"seed","type":"integer","min":0,"max":18446744073709551615,"default":18446744073709551615}');

test("the largest seed goes through the form unchanged", () => {
  assert.equal(initial(seed), "18446744073709551615");
  assert.equal(fault(seed, initial(seed)), "");
  assert.equal(write({ seed: sent(seed, initial(seed)) }), '{"seed":18446744073709551615}');
});

test("one more than the limit is refused", () => {
  assert.equal(fault(seed, "18446744073709551616"), "18446744073709551615 at most.");
  assert.equal(fault(seed, "-1"), "0 at least.");
});

test("numbers are sent with the digits that were typed", () => {
  const number = { name: "x", type: "number" };
  for (const [typed, json] of [["3.50", "3.5"], ["+5", "5"], ["007", "7"], [".5", "0.5"], ["5.", "5"], ["-0.1", "-0.1"], ["1e3", "1000"], ["0.1000000000000000055", "0.1000000000000000055"]]) {
    assert.equal(fault(number, typed), "", typed);
    assert.equal(write(sent(number, typed)), json, typed);
  }
});

test("what is no number says so", () => {
  for (const typed of ["1,5", "abc", "1 2", "--1", "0x10", "."]) {
    assert.notEqual(fault({ name: "x", type: "number" }, typed), "", typed);
    assert.notEqual(fault({ name: "x", type: "integer" }, typed), "", typed);
  }
  assert.notEqual(fault({ name: "x", type: "integer" }, "1.5"), "");
});

test("an empty field is left out unless it is needed", () => {
  for (const type of ["integer", "number", "enum", "image"]) {
    assert.equal(fault({ name: "x", type }, ""), "");
    assert.equal(sent({ name: "x", type }, ""), undefined);
    assert.equal(fault({ name: "x", type, required: true }, ""), "Needed to run.");
  }
  assert.equal(fault({ name: "x", type: "string", required: true }, "  "), "Needed to run.");
  assert.equal(sent({ name: "x", type: "string" }, ""), "");
});

test("a choice that is gone is named", () => {
  const choice = { name: "x", type: "enum", enum_values: ["a", 2n ** 60n] };
  assert.equal(fault(choice, "b"), "ComfyUI no longer has “b”. Pick another.");
  assert.equal(fault(choice, 2n ** 60n), "");
});

test("values of the server become values of a field", () => {
  assert.equal(held({ type: "boolean" }, null), false);
  assert.equal(held({ type: "boolean" }, true), true);
  assert.equal(held({ type: "string" }, null), "");
  assert.equal(held({ type: "number" }, 0.5), "0.5");
  assert.deepEqual(held({ type: "image" }, { id: "u" }), { id: "u" });
});

test("seeds are known by name or control", () => {
  for (const name of ["seed", "noise_seed", "Seed"]) assert.ok(isSeed({ name, type: "integer" }), name);
  for (const name of ["seeds", "seedling"]) assert.ok(!isSeed({ name, type: "integer" }), name);
  assert.ok(isSeed({ name: "n", type: "integer", ui_control: "seed" }));
  assert.ok(!isSeed({ name: "seed", type: "string" }));
});

test("a random seed stays within its limits", () => {
  const small = { name: "seed", type: "integer", min: 5, max: 7 };
  for (let i = 0; i < 200; i++) assert.ok(["5", "6", "7"].includes(randomSeed(small)));
  for (let i = 0; i < 200; i++) assert.equal(fault(seed, randomSeed(seed)), "");
});

test("the next seed is one more, and begins again after the last", () => {
  assert.equal(nextSeed(seed, "9007199254740992"), "9007199254740993");
  assert.equal(nextSeed(seed, "18446744073709551615"), "0");
});
