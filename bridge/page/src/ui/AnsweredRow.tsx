import { outcomeOf } from "../outcome";
import { href } from "../route";
import { headline, subjectOf } from "../subject";
import type { RoundTrip } from "../wire";
import { Age } from "./Age";
import { Shown } from "./Shown";
import { useNames } from "./useNames";

/** An answered question: what became of it, what it was, who answered and when. */
export function AnsweredRow({ roundTrip }: { roundTrip: RoundTrip }) {
  const names = useNames(roundTrip.agent);
  const subject = subjectOf(roundTrip);
  const outcome = outcomeOf(roundTrip, subject, names);
  if (!outcome) return null;
  return (
    <a class="row answered" href={href({ at: "question", id: roundTrip.id })} data-row>
      <span class={`chip tone-${outcome.tone}`}>{outcome.state}</span>
      <span class="two">
        <span class="mono">
          <Shown text={headline(subject).slice(0, 300)} />
        </span>
        <span class="sub">{[outcome.sentence, outcome.rest].filter(Boolean).join(" · ")}</span>
      </span>
      <Age at={outcome.at} bare />
    </a>
  );
}
