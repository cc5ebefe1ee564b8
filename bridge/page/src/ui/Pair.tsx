import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { canHaveKey } from "../own_key";
import { usePage } from "../page";
import { type Offer, readCode } from "../pairing";
import { go, goInstead } from "../route";
import { words } from "../words";
import { Bar } from "./Bar";
import { Shown } from "./Shown";

/** Pair this device with a machine: what it joins, one tap, the words to compare. */
export function Pair() {
  return (
    <section class="screen" aria-label={words.pairing.heading}>
      <Bar title={words.pairing.heading} back={{ at: "devices" }} />
      <div class="scroll narrow">
        <Step />
      </div>
    </section>
  );
}

function Step() {
  const { pairing } = usePage();
  const state = pairing.state.value;
  switch (state.at) {
    case "typing":
      return <Typing problem={state.problem} />;
    case "looking":
      return <p class="note">{words.pairing.looking}</p>;
    case "offered":
      return <Offered offer={state.offer} />;
    case "joining":
      return (
        <Joined offer={state.offer}>
          <p role="status">{words.pairing.joining}</p>
        </Joined>
      );
    case "comparing":
      return (
        <Joined offer={state.offer}>
          <h2>{words.pairing.compare}</h2>
          <p class="spoken">{state.words}</p>
          <p>{words.pairing.compareThen}</p>
        </Joined>
      );
    case "paired":
      return <Paired host={state.offer.host} fingerprint={state.fingerprint} />;
    default:
      return <Failed why={state.why} />;
  }
}

function Typing({ problem }: { problem: string | null }) {
  const { pairing } = usePage();
  const [typed, setTyped] = useState("");
  const [wrong, setWrong] = useState<string | null>(null);
  const look = (event: SubmitEvent) => {
    event.preventDefault();
    const invitation = readCode(typed);
    setWrong(invitation ? null : words.pairing.noCode);
    if (invitation) void pairing.look(invitation);
  };
  const why = wrong ?? problem;
  if (!canHaveKey()) return <Failed why={words.pairing.insecure(location.origin)} />;
  return (
    <form class="form" onSubmit={look}>
      <p>{words.pairing.what}</p>
      <div class="field">
        <label for="code">{words.pairing.code}</label>
        <input
          id="code"
          class="code"
          value={typed}
          maxLength={9}
          autocomplete="off"
          autocapitalize="characters"
          spellcheck={false}
          aria-describedby="code-hint"
          onInput={(event) => setTyped(event.currentTarget.value)}
        />
        <p id="code-hint" class="note">
          {words.pairing.codeHint}
        </p>
      </div>
      {why && (
        <p class="problem" role="alert">
          {why}
        </p>
      )}
      <button type="submit" class="btn go" disabled={!typed.trim()}>
        {words.pairing.look}
      </button>
    </form>
  );
}

function Offered({ offer }: { offer: Offer }) {
  const { pairing } = usePage();
  return (
    <>
      <Machine offer={offer} />
      <p>{words.pairing.what}</p>
      <p class="note">{pairing.isProven ? words.pairing.proven : words.pairing.unproven}</p>
      <button type="button" class="btn go" onClick={() => void pairing.join()}>
        {words.pairing.join}
      </button>
      <button
        type="button"
        class="btn"
        onClick={() => {
          pairing.again();
          goInstead({ at: "inbox" });
        }}
      >
        {words.pairing.notNow}
      </button>
    </>
  );
}

function Joined({ offer, children }: { offer: Offer; children: ComponentChildren }) {
  return (
    <>
      <Machine offer={offer} />
      <div class="card pad">{children}</div>
    </>
  );
}

function Machine({ offer }: { offer: Offer }) {
  const me = usePage().store.me.value;
  const { facts } = words.pairing;
  return (
    <div class="card pad">
      <dl class="facts">
        <dt>{facts.machine}</dt>
        <dd>
          <Shown text={words.pairing.machine(offer.user, offer.host)} />
        </dd>
        <dt>{facts.agent}</dt>
        <dd>
          <Shown text={offer.agent} />
        </dd>
        <dt>{facts.folder}</dt>
        <dd class="path">
          <Shown text={offer.folder} />
        </dd>
        <dt>{facts.account}</dt>
        <dd>{me && words.pairing.account(me.subject, me.tenant)}</dd>
        <dt>{facts.relay}</dt>
        <dd class="path">
          <Shown text={offer.relay} />
        </dd>
      </dl>
    </div>
  );
}

function Paired({ host, fingerprint }: { host: string; fingerprint: string }) {
  const { pairing } = usePage();
  return (
    <>
      <div class="card pad" role="status">
        <h2>{words.pairing.done(host)}</h2>
        <p class="spoken">{fingerprint}</p>
        <p class="note">{words.pairing.doneThen}</p>
      </div>
      <button
        type="button"
        class="btn go"
        onClick={() => {
          pairing.again();
          goInstead({ at: "inbox" });
        }}
      >
        {words.pairing.next}
      </button>
    </>
  );
}

function Failed({ why }: { why: string }) {
  const { pairing } = usePage();
  return (
    <>
      <div class="card pad">
        <h2>{words.pairing.failed}</h2>
        <p class="problem" role="alert">
          {why}
        </p>
        <p class="note">{words.pairing.failedThen}</p>
      </div>
      {canHaveKey() && (
        <button type="button" class="btn" onClick={() => pairing.again()}>
          {words.pairing.type}
        </button>
      )}
      <button type="button" class="btn" onClick={() => go({ at: "inbox" })}>
        {words.pairing.notNow}
      </button>
    </>
  );
}
