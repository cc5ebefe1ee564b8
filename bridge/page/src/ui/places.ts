import type { ComponentType } from "preact";
import type { Route } from "../route";
import { later, type PlaceProps } from "./Later";

/** The places that few visits open; the code of each comes when it is needed. */
export const places: Partial<Record<Route["at"], ComponentType<PlaceProps>>> = {
  settings: later(async () => (await import("./Settings")).Settings),
  devices: later(async () => (await import("./Devices")).Devices),
  pair: later(async () => (await import("./Pair")).Pair),
  new: later(async () => (await import("./NewSession")).NewSession),
  history: later(async () => (await import("./History")).History),
  audit: later(async () => (await import("./Audit")).Audit),
  rules: later(async () => (await import("./Rules")).Rules),
  fleet: later(async () => (await import("./Fleet")).Fleet),
};
