/** A place in a session's log: `epoch:seq`; cursors order as the log does. */

export type CursorText = string;

export interface Cursor {
  epoch: number;
  seq: number;
}

export const START: Cursor = { epoch: 0, seq: 0 };

/** Reads `epoch:seq`; anything else is the start. */
export function parseCursor(text: CursorText | null | undefined): Cursor {
  const match = /^(\d{1,16}):(\d{1,16})$/.exec(text ?? "");
  return match ? { epoch: Number(match[1]), seq: Number(match[2]) } : START;
}

export function cursorText(cursor: Cursor): CursorText {
  return `${cursor.epoch}:${cursor.seq}`;
}

/** Gives a negative number when `a` is before `b`, 0 when they are the same. */
export function compareCursors(a: Cursor, b: Cursor): number {
  return a.epoch - b.epoch || a.seq - b.seq;
}
