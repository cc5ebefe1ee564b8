/** An entry that came shortened, and how its whole text is fetched in pieces. */

import { entryPiece } from "./api";
import { type Cursor, type CursorText, cursorText } from "./cursor";
import { type Entry, metaOf } from "./wire";

/** What stands for a long entry: how long the whole is, and which machine keeps it. */
export interface Stub {
  cursor: CursorText;
  bytes: number;
  host: string;
}

/** How far the fetching of a whole entry is. */
export type Fetching = { state: "reading"; share: number } | { state: "failed"; message: string };

/** Gives what an entry that was shortened stands for; null: it is whole. */
export function stubOf(entry: Entry): Stub | null {
  const { full, ...cursor } = metaOf(entry);
  return full ? { cursor: cursorText(cursor), bytes: full.bytes, host: full.host } : null;
}

/** The first number that an entry stands for: pieces of a text may come joined. */
export function firstOf(entry: Entry): Cursor {
  const { epoch, seq, joined = 1 } = metaOf(entry);
  return { epoch, seq: seq - joined + 1 };
}

/** Fetches a whole entry; `onShare` hears how much of it is there. */
export async function wholeEntry(
  session: string,
  stub: Stub,
  onShare: (share: number) => void,
): Promise<Entry> {
  const parts: string[] = [];
  for (let offset: number | null = 0; offset !== null; ) {
    const piece = await entryPiece(session, stub.cursor, offset);
    parts.push(piece.text);
    offset = piece.next ?? null;
    onShare((offset ?? piece.size) / piece.size);
  }
  return JSON.parse(parts.join("")) as Entry;
}

/** Says a size as people do: 64 kB, 2.1 MB. */
export function sizeText(bytes: number): string {
  if (bytes < 1e6) return `${Math.max(1, Math.round(bytes / 1e3))} kB`;
  return `${(bytes / 1e6).toFixed(1)} MB`;
}
