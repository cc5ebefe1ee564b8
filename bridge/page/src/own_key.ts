/** The key of this browser: made here, never to be read out, kept until it is forgotten. */

import { sha256, text64, utf8 } from "./bytes";
import type { Payload } from "./wire";

export interface OwnKey {
  /** The hash of the public key: how everybody names this device. */
  id: string;
  /** The public key, `x || y`. */
  key: string;
  privateKey: CryptoKey;
}

const ALGORITHM = { name: "ECDSA", namedCurve: "P-256" } as const;
const SIGNING = { name: "ECDSA", hash: "SHA-256" } as const;
const DATABASE = "chimera-bridge";
const SHELF = "keys";
const OWN = "own";

/** Browsers make keys only on secure pages: https, or this very machine. */
export function canHaveKey(): boolean {
  return Boolean(globalThis.isSecureContext && globalThis.crypto?.subtle && globalThis.indexedDB);
}

/** Gives the key that was kept; null: there is none, or no place for keys. */
export async function readOwnKey(): Promise<OwnKey | null> {
  if (!canHaveKey()) return null;
  try {
    return (await shelf<OwnKey | undefined>("readonly", (it) => it.get(OWN))) ?? null;
  } catch {
    return null; // a private window may have no place for keys
  }
}

export async function makeKey(): Promise<OwnKey> {
  const pair = await crypto.subtle.generateKey(ALGORITHM, false, ["sign", "verify"]);
  const point = new Uint8Array(await crypto.subtle.exportKey("raw", pair.publicKey));
  const id = text64(await sha256(point));
  return { id, key: text64(point.slice(1)), privateKey: pair.privateKey };
}

export async function keepOwnKey(key: OwnKey): Promise<void> {
  await shelf("readwrite", (it) => it.put(key, OWN));
}

export async function dropOwnKey(): Promise<void> {
  if (canHaveKey()) await shelf("readwrite", (it) => it.delete(OWN));
}

/** Signs claims as a compact JWS. */
export async function sign(key: OwnKey, typ: string, claims: Payload): Promise<string> {
  const said = [{ alg: "ES256", typ }, claims].map((part) => text64(utf8(JSON.stringify(part))));
  const text = said.join(".");
  const signature = await crypto.subtle.sign(SIGNING, key.privateKey, utf8(text));
  return `${text}.${text64(new Uint8Array(signature))}`;
}

async function shelf<T>(
  mode: IDBTransactionMode,
  use: (shelf: IDBObjectStore) => IDBRequest,
): Promise<T> {
  const database = await settled<IDBDatabase>(opened());
  try {
    return await settled<T>(use(database.transaction(SHELF, mode).objectStore(SHELF)));
  } finally {
    database.close();
  }
}

function opened(): IDBOpenDBRequest {
  const request = indexedDB.open(DATABASE, 1);
  request.onupgradeneeded = () => request.result.createObjectStore(SHELF);
  return request;
}

function settled<T>(request: IDBRequest): Promise<T> {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result as T);
    request.onerror = () => reject(request.error);
  });
}
