/** One URL a place, behind the `#`: back works, and a link opens the right one. */

import { signal } from "@preact/signals";

export type Route =
  | { at: "inbox" }
  | { at: "sessions" }
  | { at: "new" }
  | { at: "fleet" }
  | { at: "settings" }
  | { at: "pair" }
  | { at: "devices" }
  | { at: "history" }
  | { at: "audit" }
  | { at: "rules" }
  | { at: "session"; id: string }
  | { at: "question"; id: string };

const PLAIN = new Set([
  "sessions",
  "new",
  "fleet",
  "settings",
  "pair",
  "devices",
  "history",
  "audit",
  "rules",
]);

/** Reads a location's fragment; what is not known is the inbox. */
export function parseRoute(hash: string): Route {
  const [, place = "", id = ""] = hash.replace(/^#/, "").split("/");
  if (place === "s" && id) return { at: "session", id: decode(id) };
  if (place === "q" && id) return { at: "question", id: decode(id) };
  return PLAIN.has(place) ? ({ at: place } as Route) : { at: "inbox" };
}

export function href(route: Route): string {
  if (route.at === "session") return `#/s/${encodeURIComponent(route.id)}`;
  if (route.at === "question") return `#/q/${encodeURIComponent(route.id)}`;
  return route.at === "inbox" ? "#/" : `#/${route.at}`;
}

export const route = signal<Route>(parseRoute(globalThis.location?.hash ?? ""));

export function go(to: Route): void {
  location.hash = href(to);
}

/** Goes there in place of the present one, which is no place to come back to. */
export function goInstead(to: Route): void {
  history.replaceState({ depth }, "", href(to));
  route.value = to;
}

// How many places of ours lie behind the present one; kept in each history entry.
let depth = 0;

/** Follows the address bar. */
export function followLocation(): void {
  history.replaceState({ depth }, "");
  addEventListener("hashchange", () => {
    const known = (history.state as { depth?: number } | null)?.depth;
    depth = known ?? depth + 1;
    if (known === undefined) history.replaceState({ depth }, "");
    route.value = parseRoute(location.hash);
  });
}

/** Goes where one came from; from a link that was opened directly, to `otherwise`. */
export function goBack(otherwise: Route): void {
  if (depth > 0) history.back();
  else go(otherwise);
}

/** What a link carries that is for nobody else's eyes. */
export interface Carried {
  /** Signs in once. */
  signIn: string | null;
  /** Pairs this device once: the code, and the secret that no relay learns. */
  pair: string | null;
}

/** Takes the secrets of a link out of the address bar, before anybody could read them there. */
export function takeCarried(): Carried {
  const parts = new Map<string, string>();
  for (const part of location.hash.replace(/^#/, "").split("&")) {
    const at = part.indexOf("=");
    if (at > 0) parts.set(part.slice(0, at), decode(part.slice(at + 1)));
  }
  const carried = { signIn: parts.get("signin") ?? null, pair: parts.get("pair") ?? null };
  if (carried.signIn || carried.pair) {
    const to: Route = carried.pair ? { at: "pair" } : { at: "inbox" };
    history.replaceState(null, "", `${location.pathname}${location.search}${href(to)}`);
    route.value = to;
  }
  return carried;
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
