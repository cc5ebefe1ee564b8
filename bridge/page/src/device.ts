/** This browser as a device that machines may know: its key, as the page follows it. */

import { signal } from "@preact/signals";
import { bytes64 } from "./bytes";
import { dropOwnKey, keepOwnKey, makeKey, type OwnKey, readOwnKey } from "./own_key";
import { spoken } from "./spoken";

/** Says a device's id in words; the beginning is enough to tell two apart. */
export function fingerprint(id: string): string {
  return spoken((bytes64(id) ?? new Uint8Array()).slice(0, 6));
}

export class Device {
  readonly own = signal<OwnKey | null>(null);

  async load(): Promise<void> {
    this.own.value = await readOwnKey();
  }

  /** Gives this device's key, or makes one that `keep` keeps. */
  async keyOrNew(): Promise<OwnKey> {
    return this.own.value ?? makeKey();
  }

  async keep(key: OwnKey): Promise<void> {
    await keepOwnKey(key);
    this.own.value = key;
    void navigator.storage?.persist?.();
  }

  async forget(): Promise<void> {
    await dropOwnKey();
    this.own.value = null;
  }
}
