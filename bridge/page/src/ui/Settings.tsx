import { useState } from "preact/hooks";
import { usePage } from "../page";
import { href } from "../route";
import { chooseTheme, type Theme, theme } from "../theme";
import { words } from "../words";
import { Badge } from "./Badge";
import { Bar } from "./Bar";
import { NotificationCard } from "./Notifications";

const THEMES: Theme[] = ["system", "light", "dark"];

/** Who I am here, how the page looks, and the way out. */
export function Settings({ wide = false }: { wide?: boolean }) {
  const page = usePage();
  const me = page.store.me.value;
  const [problem, setProblem] = useState<string | null>(null);
  const leave = async () => {
    try {
      await page.signOut();
    } catch (error) {
      setProblem((error as Error).message);
    }
  };
  return (
    <section class="screen" aria-label={words.places.settings}>
      <Bar title={words.places.settings}>{!wide && <Badge />}</Bar>
      <div class="scroll narrow">
        {me && (
          <div class="card pad">
            <dl class="facts">
              <dt>{words.settings.who}</dt>
              <dd>{me.subject}</dd>
              <dt>{words.settings.tenant}</dt>
              <dd>{me.tenant}</dd>
              <dt>{words.settings.role}</dt>
              <dd>{words.settings.roles[me.role] ?? me.role}</dd>
              {me.device && (
                <>
                  <dt>{words.settings.device}</dt>
                  <dd>{me.device}</dd>
                </>
              )}
              <dt>{words.settings.relay}</dt>
              <dd>{[me.relay?.version, me.relay?.node].filter(Boolean).join(" · ")}</dd>
              <dt>{words.settings.signed}</dt>
              <dd>
                {me.signed === "required" ? words.settings.signedOn : words.settings.signedOff}
              </dd>
            </dl>
            {!globalThis.crypto?.subtle && <p class="problem">{words.settings.insecure}</p>}
          </div>
        )}
        <Within />
        <NotificationCard />
        <fieldset class="card pad themes">
          <legend>{words.settings.theme}</legend>
          {THEMES.map((one) => (
            <label key={one} class="pick">
              <input
                type="radio"
                name="theme"
                checked={theme.value === one}
                onChange={() => chooseTheme(one)}
              />
              <span>{words.settings.themes[one]}</span>
            </label>
          ))}
        </fieldset>
        <button type="button" class="btn" onClick={() => void leave()}>
          {words.settings.signOut}
        </button>
        {problem && (
          <p class="problem" role="alert">
            {words.settings.signOutFailed(problem)}
          </p>
        )}
      </div>
    </section>
  );
}

// What one's role does not open is said in words, not shown as a door that stays shut.
function Within() {
  const { store } = usePage();
  const me = store.me.value;
  const own = ["devices", "history"] as const;
  const admins = ["audit", "rules"] as const;
  const isAdmin = store.may("admin");
  return (
    <>
      <nav class="card rows" aria-label={words.settings.more}>
        {[...own, ...(isAdmin ? admins : [])].map((at) => (
          <a key={at} class="row" href={href({ at })}>
            <span class="two">
              <span>{words.settings.within[at]}</span>
              <span class="sub">{words.settings.withinSub[at]}</span>
            </span>
            <svg viewBox="0 0 24 24" width="18" height="18" aria-hidden="true">
              <path d="M9 5l7 7-7 7" />
            </svg>
          </a>
        ))}
      </nav>
      {me && !isAdmin && <p class="note">{words.settings.adminsOnly(me.role, me.tenant)}</p>}
    </>
  );
}
