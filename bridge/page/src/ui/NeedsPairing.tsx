import { usePage } from "../page";
import { href } from "../route";
import { words } from "../words";

/** Why nothing can be done here from this device, and the way on. */
export function NeedsPairing({ agentId }: { agentId: string }) {
  const host = usePage().store.agentOf(agentId)?.host ?? "";
  return (
    <p class="note">
      {words.pairing.needed(host)} {words.pairing.neededThen}{" "}
      <a href={href({ at: "pair" })}>{words.pairing.neededLink}</a>.
    </p>
  );
}
