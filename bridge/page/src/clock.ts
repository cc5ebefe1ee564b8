/** The time, once a second while somebody looks; ages on the screen follow it. */

import { signal } from "@preact/signals";

export const now = signal(Date.now());

let timer: ReturnType<typeof setInterval> | null = null;

/** Ticks while the page is visible; a hidden page costs nothing. */
export function startClock(): void {
  const tick = () => {
    now.value = Date.now();
  };
  const follow = () => {
    if (timer) clearInterval(timer);
    timer = document.hidden ? null : setInterval(tick, 1000);
    tick();
  };
  document.addEventListener("visibilitychange", follow);
  follow();
}
