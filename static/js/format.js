// Numbers, times and sizes in the words of the reader's language.

const number = new Intl.NumberFormat();
const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const clockSeconds = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
const day = new Intl.DateTimeFormat(undefined, { weekday: "long", day: "numeric", month: "long" });
const dayYear = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "long", year: "numeric" });
const relative = new Intl.RelativeTimeFormat(undefined, { numeric: "auto" });

export const count = (n) => number.format(n);

// time reads what the server gives as a moment: a text of RFC 3339, or seconds or milliseconds.
export function time(value) {
  if (value === null || value === undefined || value === "") return NaN;
  const n = typeof value === "string" && !/^\d+(\.\d+)?$/.test(value) ? Date.parse(value) : Number(value);
  return n < 1e11 ? n * 1000 : n;
}

export const at = (ms) => (Number.isNaN(ms) ? "" : clock.format(ms));
export const atSeconds = (ms) => (Number.isNaN(ms) ? "" : clockSeconds.format(ms));

const midnight = (ms) => new Date(ms).setHours(0, 0, 0, 0);

export function dayName(ms) {
  if (Number.isNaN(ms)) return "";
  const days = Math.round((midnight(ms) - midnight(Date.now())) / 864e5);
  if (days > -2) return capital(relative.format(Math.min(0, days), "day"));
  return days > -300 ? day.format(ms) : dayYear.format(ms);
}

export const dayKey = (ms) => (Number.isNaN(ms) ? 0 : midnight(ms));

const capital = (s) => s.charAt(0).toLocaleUpperCase() + s.slice(1);

// span is a length of time: "0.4 s", "14 s", "2 min", "1 h 5 min".
export function span(ms) {
  const s = ms / 1000;
  if (s < 9.95) return `${(Math.round(s * 10) / 10).toLocaleString()} s`;
  if (s < 99.5) return `${Math.round(s)} s`;
  const min = Math.round(s / 60);
  if (min < 60) return `${min} min`;
  return min % 60 ? `${Math.floor(min / 60)} h ${min % 60} min` : `${min / 60} h`;
}

// wholeSpan never shows a fraction; for figures that move.
export const wholeSpan = (ms) => (ms < 99_500 ? `${Math.max(1, Math.round(ms / 1000))} s` : span(ms));

export function size(bytes) {
  if (bytes < 1000) return `${bytes} B`;
  if (bytes < 999_500) return `${Math.round(bytes / 1000)} kB`;
  return `${(bytes / 1e6).toLocaleString(undefined, { maximumFractionDigits: 1 })} MB`;
}
