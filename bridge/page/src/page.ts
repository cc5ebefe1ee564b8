/** Everything the page holds, wired: the store, the one connection, what I decided, what is opened. */

import { effect, signal } from "@preact/signals";
import { createContext } from "preact";
import { useContext } from "preact/hooks";
import * as api from "./api";
import { Connection, type Link, type Message } from "./connection";
import { Conversation } from "./conversation";
import { Decisions } from "./decisions";
import { Device } from "./device";
import { newId } from "./ids";
import { Notifications } from "./notifications";
import { type Invitation, PairingWith, readInvitation } from "./pairing";
import { forgetRemembered, remember, remembered } from "./remembered";
import type { Carried } from "./route";
import { Signer } from "./signer";
import { Store } from "./store";
import { type Changed, isEntry, META, type Me, type Payload, type Watched } from "./wire";

export type SignedIn = "asking" | "in" | "out" | "away";

// More opened sessions than these are left, the longest unseen one first.
const KEPT_OPEN = 3;
// A slow agent may take most of a minute to start; the relay gives up after that.
const NEW_SESSION_WITHIN = 70_000;

function initialize(device: string | null): Payload {
  const own = { decide: true, ...(device && { device }) };
  return {
    protocolVersion: 1,
    clientInfo: { name: "chimera-bridge-page", title: "Chimera Bridge", version: "1" },
    clientCapabilities: { _meta: { [META]: own } },
  };
}

export class Page {
  readonly store = new Store();
  readonly signedIn = signal<SignedIn>("asking");
  /** Why signing in did not work, or why one was signed out. */
  readonly signInProblem = signal<string | null>(null);
  readonly device = new Device();
  readonly signer = new Signer(this.store, this.device);
  readonly pairing = new PairingWith(this.device, this.store);
  readonly notifications = new Notifications();
  readonly connection: Connection;
  readonly decisions: Decisions;
  /** A pairing that waits until somebody is signed in. */
  private invitation: Invitation | null = null;
  private readonly open = new Map<string, Conversation>();

  constructor() {
    this.connection = new Connection(socketUrl, this, () => initialize(this.store.device.value));
    this.decisions = new Decisions(this.connection, this.signer);
    effect(() => {
      this.store.device.value = this.device.own.value?.id ?? null;
    });
  }

  /** Signs in with a link's secret if there is one, then connects if somebody is signed in. */
  async start({ signIn, pair }: Carried): Promise<void> {
    this.watchTheDevice();
    remember(this.store);
    await this.device.load();
    if (signIn) await this.tryToSignIn(signIn);
    await this.enter();
    const invitation = pair && readInvitation(pair);
    if (invitation && this.signedIn.value === "in") await this.pairing.look(invitation);
    else if (invitation) this.invitation = invitation;
  }

  async enter(): Promise<void> {
    this.signedIn.value = "asking";
    try {
      const me = await api.whoAmI();
      this.store.me.value = me;
      this.signedIn.value = me ? "in" : "out";
      if (!me) forgetRemembered();
    } catch {
      this.enterWithout();
    }
    if (this.signedIn.value !== "in") return;
    this.connection.start();
    const { invitation } = this;
    this.invitation = null;
    if (invitation) await this.pairing.look(invitation);
  }

  /** The relay cannot be reached: shows what was known, and goes on trying. */
  private enterWithout(): void {
    const snapshot = remembered();
    if (snapshot) this.store.restore(snapshot);
    this.signedIn.value = snapshot ? "in" : "away";
  }

  async signOut(): Promise<void> {
    if (this.notifications.here.value) await this.notifications.turnOff();
    await api.signOut();
    this.connection.stop();
    sessionStorage.clear();
    forgetRemembered();
    location.hash = "#/";
    location.reload();
  }

  /** Gives the opened session, attaching to it when it was not yet. */
  conversation(sessionId: string): Conversation {
    const known = this.open.get(sessionId);
    const one =
      known ??
      new Conversation(
        sessionId,
        this.connection,
        (session) => {
          this.store.putSession(session);
        },
        this.signer,
      );
    this.open.delete(sessionId);
    this.open.set(sessionId, one);
    if (!known) {
      this.leaveOldest();
      if (this.store.link.value.state === "live") void one.attach();
    }
    return one;
  }

  async newSession(agent: string, cwd: string): Promise<string> {
    const mailId = newId("n");
    const asked = { cwd, mcpServers: [] };
    const signature = await this.signer.mail(agent, mailId, {
      method: "session/new",
      params: asked,
    });
    const meta = { [META]: { agent, mailId, ...(signature && { signature }) } };
    const params = { ...asked, _meta: meta };
    const result = await this.connection.request<{ sessionId: string }>(
      "session/new",
      params,
      NEW_SESSION_WITHIN,
    );
    return result.sessionId;
  }

  // What the connection tells us.

  link(link: Link): void {
    this.store.link.value = link;
    if (link.state === "live") {
      this.store.lastLive.value = Date.now();
      this.decisions.resend();
      for (const one of this.open.values()) void one.attach();
    } else if (link.state === "signed-out") {
      this.signedIn.value = "out";
      this.store.me.value = null;
    }
  }

  async ready(hello: Payload): Promise<void> {
    const meta = (hello._meta as Payload | undefined)?.[META] as Partial<Me> | undefined;
    const { me } = this.store;
    if (meta && me.value) {
      me.value = { ...me.value, role: meta.role ?? me.value.role, signed: meta.signed };
    }
    this.store.replace(await this.connection.request<Watched>("_bridge/watch", {}));
  }

  message(message: Message): void {
    this.store.lastLive.value = Date.now();
    if (message.method === "_bridge/changed") {
      this.store.change(message.params as Changed);
    } else if (message.method === "_bridge/gap" && !isEntry(message)) {
      this.open.get(String(message.params?.sessionId))?.gap(message.params ?? {});
    } else if (isEntry(message)) {
      this.open.get(message.params.sessionId)?.receive(message);
    }
  }

  async isSignedIn(): Promise<"in" | "out" | "away"> {
    try {
      return (await api.whoAmI()) ? "in" : "out";
    } catch {
      return "away";
    }
  }

  async retryAfter(): Promise<number> {
    return api.retryAfter().catch(() => 0);
  }

  private async tryToSignIn(secret: string): Promise<void> {
    try {
      await api.signIn(secret);
    } catch (error) {
      this.signInProblem.value = (error as Error).message;
    }
  }

  private leaveOldest(): void {
    for (const [id, one] of this.open) {
      if (this.open.size <= KEPT_OPEN) return;
      this.open.delete(id);
      one.leave();
    }
  }

  private watchTheDevice(): void {
    const check = () => this.connection.check();
    addEventListener("online", check);
    addEventListener("pageshow", check);
    document.addEventListener("resume", check);
    document.addEventListener("visibilitychange", () => {
      if (!document.hidden) check();
      else this.connection.notify("_bridge/visible", { visible: false });
    });
  }
}

function socketUrl(): string {
  const scheme = location.protocol === "https:" ? "wss:" : "ws:";
  return `${scheme}//${location.host}/acp`;
}

const PageContext = createContext<Page | null>(null);

export const PageProvider = PageContext.Provider;

export function usePage(): Page {
  const page = useContext(PageContext);
  if (!page) throw new Error("no page above this component");
  return page;
}
