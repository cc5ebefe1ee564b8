/** Words of the history: sessions that were, and what may be taken away of them. */

export const words = {
  heading: "History",
  search: "Search title, folder, machine, agent",
  none: "No session has been held yet.",
  noMatch: (text: string) => `No session matches “${text}”.`,
  count: (shown: number, all: number) =>
    `${shown === all ? "" : `${shown.toLocaleString()} of `}${all.toLocaleString()} ${all === 1 ? "session" : "sessions"}`,
  kept: "The relay keeps a session that nobody writes to for a while; what it no longer has stays on its machine.",
  export: "Transcript",
  forms: { md: "Markdown", html: "HTML", json: "JSON" } as const,
  open: "Open",
  more: (count: number) => `Show ${count} more`,
};
