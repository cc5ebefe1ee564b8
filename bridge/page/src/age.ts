/** Words for times: relative within a day, exact beyond it. */

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** Reads an ISO 8601 time or Unix milliseconds; null when there is none. */
export function instant(at: string | number | null | undefined): number | null {
  if (at === null || at === undefined || at === "" || at === 0) return null;
  const value = typeof at === "number" ? at : Date.parse(at);
  return Number.isNaN(value) ? null : value;
}

/** Says how long: "12 s", "4 min", "3 h", "2 d". */
export function duration(milliseconds: number): string {
  const ms = Math.max(0, milliseconds);
  if (ms < MINUTE) return `${Math.floor(ms / 1000)} s`;
  if (ms < HOUR) return `${Math.floor(ms / MINUTE)} min`;
  if (ms < DAY) return `${Math.floor(ms / HOUR)} h`;
  return `${Math.floor(ms / DAY)} d`;
}

/** Says how long with the smaller unit beside it, for the one number a person watches. */
export function exactDuration(milliseconds: number): string {
  const ms = Math.max(0, milliseconds);
  if (ms < MINUTE) return duration(ms);
  if (ms < HOUR) return `${Math.floor(ms / MINUTE)} min ${Math.floor((ms % MINUTE) / 1000)} s`;
  if (ms < DAY) return `${Math.floor(ms / HOUR)} h ${Math.floor((ms % HOUR) / MINUTE)} min`;
  return `${Math.floor(ms / DAY)} d ${Math.floor((ms % DAY) / HOUR)} h`;
}

/** Says how long something took: "0.2 s", "31 s", "2 min 4 s". */
export function took(milliseconds: number): string {
  if (milliseconds < 9950) return `${(Math.max(0, milliseconds) / 1000).toFixed(1)} s`;
  return exactDuration(milliseconds);
}

/** Says when, seen from now: "now", "12 s ago", "4 min ago", and after a day the date. */
export function ago(then: number, now: number): string {
  const age = now - then;
  if (age < 2000) return "just now";
  return age < DAY ? `${duration(age)} ago` : exactTime(then);
}

/** The date and time in the reader's own format. */
export function exactTime(then: number): string {
  return new Date(then).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" });
}

/** The time of day: "14:32". */
export function clockTime(then: number): string {
  return new Date(then).toLocaleTimeString(undefined, { hour: "2-digit", minute: "2-digit" });
}
