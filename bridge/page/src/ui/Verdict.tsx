import { useEffect } from "preact/hooks";
import { announce } from "../announcer";
import { now } from "../clock";
import { attemptOf, outcomeOf } from "../outcome";
import { usePage } from "../page";
import { awaySentence } from "../states";
import { subjectOf } from "../subject";
import type { RoundTrip } from "../wire";
import { words } from "../words";
import { Age } from "./Age";
import { useNames } from "./useNames";

/** What became of a question and of my own answer to it; nothing while it only waits. */
export function Verdict({ roundTrip }: { roundTrip: RoundTrip }) {
  const { store, decisions } = usePage();
  const names = useNames(roundTrip.agent);
  const subject = subjectOf(roundTrip);
  const mine = decisions.mine.value.get(roundTrip.id);
  const outcome = outcomeOf(roundTrip, subject, names);
  const attempt = attemptOf(mine, subject, names);
  const ownWon = mine?.state === "recorded" && outcome !== null;
  const spoken = outcome ? outcome.sentence : attempt?.sentence;
  useEffect(() => {
    if (mine && spoken) announce(spoken);
  }, [mine, spoken]);
  if (!outcome && !attempt) return null;
  const attachment = store.agentOf(roundTrip.agent)?.attachment;
  const isOnItsWay = roundTrip.state === "decided" || (!outcome && mine?.state === "recorded");
  const away =
    isOnItsWay && attachment && awaySentence(names.host, attachment, now.value + store.skew.value);
  const unsent = mine?.state === "sending" && store.link.value.state !== "live";
  return (
    <div class="verdict" role="status">
      {attempt && !ownWon && <p class={`tone-${attempt.tone}`}>{attempt.sentence}</p>}
      {outcome && (
        <p>
          <span class={`chip tone-${outcome.tone}`}>{outcome.state}</span>
          <span>{outcome.sentence}</span>
          <Age at={outcome.at} />
        </p>
      )}
      {outcome?.rest && !away && <p class="note">{outcome.rest}</p>}
      {away && (
        <p class="note">
          {away} {words.question.away(names.host)}
        </p>
      )}
      {unsent && <p class="note">{words.question.unsent}</p>}
      {mine?.state === "failed" && <p class="note">{words.question.tryAgain}</p>}
    </div>
  );
}
