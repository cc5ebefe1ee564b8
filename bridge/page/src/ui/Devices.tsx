import { useEffect, useState } from "preact/hooks";
import { devices, type PairedDevice, revokeDevice } from "../api";
import { usePage } from "../page";
import { href } from "../route";
import { words } from "../words";
import { Age } from "./Age";
import { Bar } from "./Bar";
import { Shown } from "./Shown";

/** Every device that signs for me, and the end of one that is lost. */
export function Devices() {
  const { store } = usePage();
  const [found, setFound] = useState<PairedDevice[] | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  const read = () =>
    devices().then(setFound, (error: Error) => setProblem(words.devices.failed(error.message)));
  const agents = store.agents.value; // a machine that pairs tells it by its agent
  useEffect(() => {
    void read();
  }, [agents]);
  const revoke = async (id: string) => {
    try {
      await revokeDevice(id);
      await read();
    } catch (error) {
      setProblem((error as Error).message);
    }
  };
  return (
    <section class="screen" aria-label={words.devices.heading}>
      <Bar title={words.devices.heading} back={{ at: "settings" }} />
      <div class="scroll narrow">
        <p class="note">{words.devices.what}</p>
        {problem && (
          <p class="problem" role="alert">
            {problem}
          </p>
        )}
        {!found && !problem && <p class="note">{words.devices.reading}</p>}
        {found?.length === 0 && <p class="empty">{words.devices.none}</p>}
        {found?.map((one) => (
          <DeviceCard key={one.id} device={one} revoke={() => revoke(one.id)} />
        ))}
        <a class="btn" href={href({ at: "pair" })}>
          {words.devices.pair}
        </a>
      </div>
    </section>
  );
}

function DeviceCard({ device, revoke }: { device: PairedDevice; revoke: () => Promise<void> }) {
  const { store } = usePage();
  const isOwn = store.device.value === device.id;
  const isMine = store.me.value?.subject === device.subject;
  const machines = device.machines.map((one) => `${one.name} on ${one.host}`).join(", ");
  return (
    <article class="card pad device" data-device={device.id}>
      <header>
        <b>
          <Shown text={device.name} />
          {!isMine && ` ${words.devices.of} ${device.subject}`}
        </b>
        {isOwn && <span class="chip">{words.devices.own}</span>}
        {device.revokedAt && <span class="chip risk-high">{words.devices.revoked}</span>}
      </header>
      <dl class="facts">
        <dt>{words.devices.fingerprint}</dt>
        <dd class="mono">{device.fingerprint}</dd>
        <dt>{words.devices.signsFor}</dt>
        <dd>{machines || words.devices.nowhere}</dd>
        {device.lastSeen && (
          <>
            <dt>{words.devices.lastSeen}</dt>
            <dd>
              <Age at={device.lastSeen} />
            </dd>
          </>
        )}
      </dl>
      {!device.revokedAt && <Revoke revoke={revoke} />}
    </article>
  );
}

// It cannot be undone from here: the second tap is another button, in another place.
function Revoke({ revoke }: { revoke: () => Promise<void> }) {
  const [isAsking, setAsking] = useState(false);
  const [isBusy, setBusy] = useState(false);
  if (!isAsking) {
    return (
      <button type="button" class="btn small" onClick={() => setAsking(true)}>
        {words.devices.revoke}
      </button>
    );
  }
  const go = async () => {
    setBusy(true);
    await revoke();
    setBusy(false);
    setAsking(false);
  };
  return (
    <div class="sure">
      <p class="note">{words.devices.sureThen}</p>
      <button type="button" class="btn" onClick={() => setAsking(false)}>
        {words.devices.keep}
      </button>
      <button type="button" class="btn danger" disabled={isBusy} onClick={() => void go()}>
        {words.devices.sure}
      </button>
    </div>
  );
}
