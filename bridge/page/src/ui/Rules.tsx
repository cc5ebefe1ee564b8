import { useState } from "preact/hooks";
import {
  addRule,
  type DryRun,
  type Rule,
  type RuleWish,
  removeRule,
  rules,
  tryRules,
} from "../admin";
import { usePage } from "../page";
import { words } from "../words/rules";
import { Age } from "./Age";
import { Bar } from "./Bar";
import { ForAdmins } from "./ForAdmins";
import { RuleForm } from "./RuleForm";
import { Shown } from "./Shown";
import { useRead } from "./useRead";
import { WouldHave } from "./WouldHave";
import "../style/console.css";

/** The rules of a tenant: which hold, what they would have done, new ones. */
export function Rules() {
  const { store } = usePage();
  return (
    <section class="screen" aria-label={words.heading}>
      <Bar title={words.heading} back={{ at: "settings" }} />
      <div class="scroll broad">
        {store.may("admin") ? <Held /> : <ForAdmins says={words.admins} />}
      </div>
    </section>
  );
}

interface Removed {
  rule: Rule;
  position: number;
}

function Held() {
  const found = useRead(rules);
  const [tried, setTried] = useState<DryRun | null>(null);
  const [removed, setRemoved] = useState<Removed | null>(null);
  const [said, setSaid] = useState<string | null>(null);
  const [problem, setProblem] = useState<string | null>(null);

  const doing = async (what: () => Promise<unknown>) => {
    setProblem(null);
    setSaid(null);
    try {
      await what();
      await found.again();
      return true;
    } catch (error) {
      setProblem((error as Error).message);
      return false;
    }
  };
  const remove = (rule: Rule, position: number) =>
    doing(async () => {
      await removeRule(rule.id);
      setRemoved({ rule, position });
      setTried(null);
    });
  const putBack = ({ rule, position }: Removed) =>
    doing(async () => {
      await addRule({ ...wishOf(rule), position });
      setRemoved(null);
    });
  const make = (wish: RuleWish) =>
    doing(async () => {
      const rule = await addRule(wish);
      setRemoved(null);
      setTried(null);
      setSaid(words.added(rule.words));
    });
  const trouble = problem ?? found.problem;
  return (
    <>
      <p class="note">{words.what}</p>
      {!found.value && !trouble && <p class="note">{words.reading}</p>}
      {found.value?.length === 0 && <p class="empty">{words.none}</p>}
      {found.value && found.value.length > 0 && (
        <>
          <ol class="card rows rules">
            {found.value.map((one, position) => (
              <Line key={one.id} rule={one} remove={() => void remove(one, position)} />
            ))}
          </ol>
          <button
            type="button"
            class="btn"
            onClick={() => void doing(async () => setTried(await tryRules()))}
          >
            {words.tryAll}
          </button>
        </>
      )}
      {removed && (
        <p class="said" role="status">
          <span>{words.removed(removed.rule.words)}</span>
          <button type="button" class="btn small" onClick={() => void putBack(removed)}>
            {words.putBack}
          </button>
        </p>
      )}
      {tried && <WouldHave tried={tried} />}
      {trouble && (
        <p class="problem" role="alert">
          {words.failed(trouble)}
        </p>
      )}
      {said && (
        <p class="said" role="status">
          {said}
        </p>
      )}
      <RuleForm make={make} />
    </>
  );
}

function Line({ rule, remove }: { rule: Rule; remove: () => void }) {
  return (
    <li class="row" data-rule={rule.id}>
      <span class="two whole">
        <span>
          <Shown text={rule.words} />
        </span>
        <span class="sub">
          {words.by(rule.by.subject)} · <Age at={rule.at} />
          {rule.note && (
            <>
              {" "}
              · <Shown text={rule.note} />
            </>
          )}
        </span>
      </span>
      <button
        type="button"
        class="btn small"
        aria-label={words.removeThis(rule.words)}
        onClick={remove}
      >
        {words.remove}
      </button>
    </li>
  );
}

function wishOf({ match, action, seconds, note }: Rule): RuleWish {
  return { match, action, ...(seconds && { seconds }), ...(note && { note }) };
}
