/** The page without a network: its own files, kept as they were built together. */

/** What this build consists of, and its name; put here by the build. */
declare const __SHELL__: { name: string; files: string[] };

const PREFIX = "shell-";
const KEPT = 2; // this build, and the one whose pages may still be open
const FRESH_WITHIN = 4000;
const NOT_OURS = /^\/(api|acp|uplink|healthz|readyz|metrics)(\/|$)/;

export async function keepShell(): Promise<void> {
  const cache = await caches.open(PREFIX + __SHELL__.name);
  await cache.addAll(__SHELL__.files.map((file) => new Request(file, { cache: "reload" })));
}

/** Drops the files of builds of which no page can be open any more. */
export async function dropOldShells(): Promise<void> {
  const names = (await caches.keys()).filter((name) => name.startsWith(PREFIX));
  const old = names.filter((name) => name !== PREFIX + __SHELL__.name);
  await Promise.all(
    old.slice(0, Math.max(0, old.length - (KEPT - 1))).map((n) => caches.delete(n)),
  );
}

/** Whether a request is for the page's files, which are answered here. */
export function isOfShell(request: Request, origin: string): boolean {
  const url = new URL(request.url);
  return request.method === "GET" && url.origin === origin && !NOT_OURS.test(url.pathname);
}

/** Answers with the newest page that can be had, and with a file as it was built. */
export async function fromShell(request: Request): Promise<Response> {
  if (request.mode === "navigate") return newestPage(request);
  return (await caches.match(request, { ignoreSearch: true })) ?? fetch(request);
}

async function newestPage(request: Request): Promise<Response> {
  const kept = await caches.match("/");
  try {
    const signal = kept ? AbortSignal.timeout(FRESH_WITHIN) : undefined;
    const fresh = await fetch(request.url, { signal, cache: "no-cache", redirect: "follow" });
    return fresh.ok || !kept ? fresh : kept;
  } catch (error) {
    if (kept) return kept;
    throw error;
  }
}
