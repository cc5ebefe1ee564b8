/// <reference lib="webworker" />
/** The service worker: the page without a network, and what is shown while it is closed. */

import { answer } from "./answering";
import { type Asked, areMany, type Pushed, type Shown, shownFor, summary, tagOf } from "./notices";
import { dropOldShells, fromShell, isOfShell, keepShell } from "./shell";
import { notifications as words } from "./words/notifications";

declare const self: ServiceWorkerGlobalScope;

/** What a notification carries to its tap. */
interface Carried {
  place: string;
  asked: Asked | null;
  buttons: Shown["buttons"];
}

type Options = NotificationOptions & {
  actions?: { action: string; title: string }[];
  renotify?: boolean;
};

const ICON = "./icon-192.png";
const BADGE = "./badge.png";
const SHARED = "shared-text";

self.addEventListener("install", (event) => {
  event.waitUntil(keepShell().then(() => self.skipWaiting()));
});

self.addEventListener("activate", (event) => {
  event.waitUntil(dropOldShells().then(() => self.clients.claim()));
});

self.addEventListener("fetch", (event) => {
  const { request } = event;
  if (request.method === "POST" && new URL(request.url).pathname === "/share") {
    event.respondWith(takeShared(request));
  } else if (isOfShell(request, self.location.origin)) {
    event.respondWith(fromShell(request));
  }
});

self.addEventListener("push", (event) => {
  const pushed = event.data?.json() as Pushed | undefined;
  if (pushed) event.waitUntil(show(pushed));
});

self.addEventListener("notificationclick", (event) => {
  const { place, asked, buttons } = event.notification.data as Carried;
  const button = buttons.find((one) => one.action === event.action);
  event.notification.close();
  event.waitUntil(button && asked ? choose(asked, button) : open(place));
});

// The browser may change where it takes messages; the page says so to the relay when it opens.
self.addEventListener("pushsubscriptionchange", (event) => {
  const { oldSubscription } = event as Event & { oldSubscription?: PushSubscription };
  const key = oldSubscription?.options.applicationServerKey;
  if (!key) return;
  (event as ExtendableEvent).waitUntil(subscribeAgain(key));
});

async function show(pushed: Pushed): Promise<void> {
  if ("open" in pushed) await self.navigator.setAppBadge?.(pushed.open).catch(() => undefined);
  if (pushed.kind !== "test" && (await isLookedAt())) return;
  const shown = await gathered(pushed, await shownFor(pushed));
  if (!shown) return;
  await notify(shown, pushed.kind === "question" ? pushed : null);
}

/** One notification stands for many questions; what is over leaves none behind. */
async function gathered(pushed: Pushed, shown: Shown): Promise<Shown | null> {
  const all = await self.registration.getNotifications();
  if (pushed.kind === "answered") {
    const there = all.some((one) => one.tag === tagOf(pushed.id));
    return there || !shown.quietly ? shown : null;
  }
  if (pushed.kind !== "question") return shown;
  const others = all.filter((one) => one.tag.startsWith("q-") && one.tag !== shown.tag);
  const summed = all.some((one) => one.tag === "many");
  if (!summed && !areMany(others.length)) return shown;
  for (const one of others) one.close();
  return summary(pushed.open);
}

async function notify(shown: Shown, asked: Asked | null): Promise<void> {
  const data: Carried = { place: shown.place, asked, buttons: shown.buttons };
  const options: Options = {
    body: shown.body,
    tag: shown.tag,
    data,
    icon: ICON,
    badge: BADGE,
    silent: shown.quietly,
    renotify: !shown.quietly,
    actions: shown.buttons.map((one) => ({ action: one.action, title: one.option.name })),
  };
  await self.registration.showNotification(shown.title, options);
}

async function choose(asked: Asked, button: Shown["buttons"][number]): Promise<void> {
  const place = `#/q/${asked.id}`;
  const base = { tag: tagOf(asked.id), place, buttons: [], quietly: true };
  await notify({ ...base, title: words.sending, body: button.option.name }, null);
  const { title, body, isOpen } = await answer(asked, button.option);
  await notify({ ...base, title, body, quietly: !isOpen }, null);
}

async function open(place: string): Promise<void> {
  const [known] = await self.clients.matchAll({ type: "window" });
  if (!known) {
    await self.clients.openWindow(`./${place}`);
    return;
  }
  known.postMessage({ go: place });
  await known.focus();
}

// Who has the page before them sees it there. Safari takes the right to notify from pages that
// stay silent, so there it is shown all the same.
async function isLookedAt(): Promise<boolean> {
  const agent = self.navigator.userAgent;
  if (agent.includes("Safari/") && !agent.includes("Chrome/")) return false;
  const windows = await self.clients.matchAll({ type: "window" });
  return windows.some((one) => one.focused && one.visibilityState === "visible");
}

async function subscribeAgain(applicationServerKey: ArrayBuffer): Promise<void> {
  const fresh = await self.registration.pushManager.subscribe({
    userVisibleOnly: true,
    applicationServerKey,
  });
  await fetch("./api/push/subscription", {
    method: "PUT",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(fresh.toJSON()),
    credentials: "same-origin",
  });
}

/** Keeps what another app shared until the page takes it, and opens the page there. */
async function takeShared(request: Request): Promise<Response> {
  const form = await request.formData();
  const parts = ["title", "text", "url"].map((name) => form.get(name)).filter(Boolean);
  const cache = await caches.open(SHARED);
  await cache.put("./shared", new Response(parts.join("\n")));
  return Response.redirect("./#/new", 303);
}
