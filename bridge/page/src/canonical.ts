/** The one text that stands for a message, of which a device signs the hash (RFC 8785, whole numbers). */

export function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (typeof value === "object" && value !== null) return canonicalObject(value);
  if (typeof value === "number" && !Number.isSafeInteger(value)) {
    throw new Error("a signed message holds only whole numbers");
  }
  return JSON.stringify(value);
}

function canonicalObject(value: object): string {
  const entries = Object.entries(value).filter(([, one]) => one !== undefined);
  entries.sort(([a], [b]) => (a < b ? -1 : 1));
  const parts = entries.map(([name, one]) => `${JSON.stringify(name)}:${canonical(one)}`);
  return `{${parts.join(",")}}`;
}
