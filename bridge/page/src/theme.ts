/** Light, dark, or as the system has it; kept on this device. */

import { signal } from "@preact/signals";

export type Theme = "system" | "light" | "dark";

export const theme = signal<Theme>("system");

const dark = globalThis.matchMedia?.("(prefers-color-scheme: dark)");

export function startTheme(): void {
  const kept = localStorage.getItem("theme");
  if (kept === "light" || kept === "dark") theme.value = kept;
  dark?.addEventListener("change", show);
  show();
}

export function chooseTheme(chosen: Theme): void {
  theme.value = chosen;
  localStorage.setItem("theme", chosen);
  show();
}

function show(): void {
  const isDark = theme.value === "dark" || (theme.value === "system" && dark?.matches);
  document.documentElement.dataset.theme = isDark ? "dark" : "light";
}
