// How far a run is. A node weighs as long as it took in an earlier run; before that is known, one
// that counts steps weighs as much as eight others.

const STEPS = 8;

// shareOf gives 0 to 1, or null while nothing is known; times are milliseconds by node.
export function shareOf(run, times = {}) {
  if (run.phase === "collecting") return 1;
  const p = run.progress;
  if (!p?.node) return null;
  const step = Number(p.max) > 0 ? Math.min(1, Number(p.value) / Number(p.max)) : 0;
  if (!(Number(p.total) > 0)) return Number(p.max) > 0 ? step : null;
  return Math.min(1, byTime(run, times, step) ?? byCount(run, step));
}

// byTime answers only when it knows all nodes that are done.
function byTime({ nodes = {}, progress }, times, step) {
  const known = Object.keys(times), here = progress.node.id;
  const over = Object.entries(nodes).filter(([id, n]) => n.finishedAt && id !== here);
  if (!known.length || over.length < Number(progress.done)) return null;
  const mean = sum(known.map((id) => times[id])) / known.length;
  const cost = (id) => (nodes[id]?.cached ? 0 : times[id] ?? mean);
  const whole = sum([...new Set([...known, here])].map(cost));
  return whole > 0 ? (sum(over.map(([id]) => cost(id))) + step * cost(here)) / whole : null;
}

function byCount({ progress }, step) {
  const { node, done, total, stepped = [] } = progress;
  const before = stepped.filter((id) => id !== node.id).length;
  const units = Number(total) + (STEPS - 1) * Math.max(1, stepped.length);
  return (Number(done) + (STEPS - 1) * before + step * (stepped.includes(node.id) ? STEPS : 1)) / units;
}

// timesOf gives how long each node of a finished run took, over what was known of them.
export function timesOf(run, known = {}) {
  const times = { ...known };
  for (const [id, n] of Object.entries(run.nodes ?? {})) {
    const ms = Date.parse(n.finishedAt) - Date.parse(n.startedAt);
    if (!n.cached && ms >= 0) times[id] = Math.max(1, ms);
  }
  return times;
}

const sum = (list) => list.reduce((a, b) => a + b, 0);
