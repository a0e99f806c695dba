import assert from "node:assert/strict";
import test from "node:test";
import { shareOf, timesOf } from "../js/progress.js";

const at = (node, done, total, value = 0, max = 1, stepped) => ({ node: { id: node }, done, total, value, max, stepped });

test("nothing is known before a node is named", () => {
  assert.equal(shareOf({}), null);
  assert.equal(shareOf({ progress: { queue_position: 2 } }), null);
});

test("a node that counts steps is most of the work", () => {
  assert.equal(shareOf({ progress: at("3", 4, 7, 0, 20, ["3"]) }), 4 / 14);
  assert.equal(shareOf({ progress: at("3", 4, 7, 20, 20, ["3"]) }), 12 / 14);
  assert.equal(shareOf({ progress: at("4", 5, 7, 0, 1, ["3"]) }), 12 / 14);
});

test("a share never goes back when the node with steps is found", () => {
  const before = shareOf({ progress: at("2", 3, 7, 1, 1) });
  assert.ok(shareOf({ progress: at("3", 4, 7, 1, 20, ["3"]) }) >= before);
});

test("without a count of nodes the steps alone tell it", () => {
  assert.equal(shareOf({ progress: { node: { id: "3" }, value: 5, max: 20 } }), 0.25);
  assert.equal(shareOf({ progress: { node: { id: "3" } } }), null);
});

test("collecting is the end", () => assert.equal(shareOf({ phase: "collecting" }), 1));

const done = (ms, extra) => ({ startedAt: "2026-01-01T00:00:00.000Z", finishedAt: new Date(Date.UTC(2026, 0, 1) + ms).toISOString(), ...extra });

test("a second run is measured by the times of the first", () => {
  const times = timesOf({ nodes: { 1: done(1000), 2: done(8000), 3: done(1000) } });
  assert.deepEqual(times, { 1: 1000, 2: 8000, 3: 1000 });
  assert.equal(shareOf({ nodes: { 1: done(1) }, progress: at("2", 1, 3, 10, 20) }, times), 0.5);
});

test("what was cached takes no time, and keeps the time it once took", () => {
  const times = timesOf({ nodes: { 1: done(0, { cached: true }), 2: done(500) } }, { 1: 3000, 2: 100 });
  assert.deepEqual(times, { 1: 3000, 2: 500 });
  assert.equal(shareOf({ nodes: { 1: done(0, { cached: true }) }, progress: at("2", 1, 2, 1, 2) }, times), 0.5);
});

test("nodes that nobody heard of are counted", () => {
  assert.equal(shareOf({ nodes: {}, progress: at("2", 1, 2) }, { 1: 10, 2: 10 }), 1 / 9);
});
