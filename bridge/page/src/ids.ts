/** Ids that the page makes: `[A-Za-z0-9_.-]`, at most 64 characters, never twice. */

export function newId(prefix: string): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return `${prefix}-${Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}
