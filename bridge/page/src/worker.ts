/** The page's service worker, as the page sees it: started, listened to, asked to subscribe. */

import { bytes64 } from "./bytes";

const PATH = "./sw.js";
const SHARED = "shared-text";

type Policy = { createScriptURL(url: string): unknown };
type Policies = { createPolicy(name: string, rules: object): Policy };

/** Starts the worker where browsers have them; the page works without it. */
export async function startWorker(): Promise<void> {
  if (!("serviceWorker" in navigator)) return;
  navigator.serviceWorker.addEventListener("message", (event) => {
    const place = (event.data as { go?: string }).go;
    if (place?.startsWith("#/")) location.hash = place;
  });
  try {
    await navigator.serviceWorker.register(trusted(PATH) as string);
  } catch (error) {
    console.info("no service worker:", (error as Error).message);
  }
}

/** Gives the subscription of this browser; null: it is not notified. */
export async function subscription(): Promise<PushSubscription | null> {
  const registration = await navigator.serviceWorker.getRegistration();
  return (await registration?.pushManager?.getSubscription()) ?? null;
}

/** Subscribes with the relay's key; what was subscribed with another key ends. */
export async function subscribe(key: string): Promise<PushSubscription> {
  const { pushManager } = await navigator.serviceWorker.ready;
  const known = await pushManager.getSubscription();
  if (known && hasKey(known, key)) return known;
  await known?.unsubscribe();
  return pushManager.subscribe({
    userVisibleOnly: true,
    applicationServerKey: bytes64(key) ?? undefined,
  });
}

export function hasKey(known: PushSubscription, key: string): boolean {
  const own = known.options?.applicationServerKey;
  const wanted = bytes64(key);
  return Boolean(own && wanted && String(new Uint8Array(own)) === String(wanted));
}

/** Takes what another app shared with this one, once. */
export async function takeShared(): Promise<string> {
  if (!("caches" in globalThis)) return "";
  const cache = await caches.open(SHARED);
  const kept = await cache.match("./shared");
  if (!kept) return "";
  await cache.delete("./shared");
  return kept.text();
}

/** Shows how many questions wait on the app's icon. */
export function badge(open: number): void {
  const done = open ? navigator.setAppBadge?.(open) : navigator.clearAppBadge?.();
  done?.catch(() => undefined); // not installed
}

// The page's policy lets no text become a script's address but this one.
function trusted(path: string): unknown {
  const policies = (globalThis as { trustedTypes?: Policies }).trustedTypes;
  if (!policies) return path;
  const rules = {
    createScriptURL(url: string) {
      if (url !== PATH) throw new TypeError(`${url} is not the page's worker`);
      return url;
    },
  };
  return policies.createPolicy("worker", rules).createScriptURL(path);
}
