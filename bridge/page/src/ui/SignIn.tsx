import { usePage } from "../page";
import { words } from "../words";

/** How to get in: a link from the machine where the relay runs. */
export function SignIn() {
  const page = usePage();
  if (page.signedIn.value === "away") return <Away />;
  const problem = page.signInProblem.value;
  return (
    <main class="gate">
      <h1>{words.product}</h1>
      <section class="card pad">
        <h2>{words.signIn.heading}</h2>
        {problem && (
          <p class="problem" role="alert">
            {words.signIn.failed(problem)} {words.signIn.failedThen}
          </p>
        )}
        <p>{words.signIn.how}</p>
        <p>{words.signIn.where}</p>
        <pre>{words.signIn.command}</pre>
        <p>{words.signIn.open}</p>
        <pre>{words.signIn.example(location.origin)}</pre>
      </section>
    </main>
  );
}

function Away() {
  const page = usePage();
  return (
    <main class="gate">
      <h1>{words.product}</h1>
      <section class="card pad">
        <h2>{words.signIn.away}</h2>
        <p>{words.signIn.awayThen}</p>
        <button type="button" class="btn" onClick={() => void page.enter()}>
          {words.signIn.retry}
        </button>
      </section>
    </main>
  );
}
