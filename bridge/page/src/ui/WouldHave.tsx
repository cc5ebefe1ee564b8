import type { DryRun } from "../admin";
import { href } from "../route";
import { words } from "../words/rules";
import { Age } from "./Age";
import { Shown } from "./Shown";

const SHOWN = 50;

/** What rules would have done with the questions of the last day, beside what became of them. */
export function WouldHave({ tried }: { tried: DryRun }) {
  const { questions, of, hours } = tried;
  if (questions.length === 0) {
    return (
      <p class="said" role="status">
        {words.triedNone(of, hours)}
      </p>
    );
  }
  return (
    <section class="card tried" aria-label={words.try}>
      <p class="pad" role="status">
        {words.tried(questions.length, of, hours)}
      </p>
      <div class="rows">
        {questions.slice(0, SHOWN).map((one) => (
          <a key={one.id} class="row" href={href({ at: "session", id: one.sessionId })}>
            <span class="two">
              <span class="mono">
                <Shown text={one.title.slice(0, 300)} />
              </span>
              <span class="sub">
                {words.would[one.action]} · {words.was(one.was)}
              </span>
            </span>
            <Age at={one.askedAt} bare />
          </a>
        ))}
      </div>
    </section>
  );
}
