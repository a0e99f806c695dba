// The one line that readers hear: at most one message in five seconds, the latest wins.

const PAUSE = 5000;
let next = "", quietUntil = 0, timer = 0;

export function say(words) {
  next = words;
  if (!timer) timer = setTimeout(speak, Math.max(0, quietUntil - Date.now()));
}

function speak() {
  timer = 0;
  quietUntil = Date.now() + PAUSE;
  document.getElementById("said").textContent = next;
}
