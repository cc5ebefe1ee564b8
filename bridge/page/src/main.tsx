import { render } from "preact";
import { announceQuestions, countInTitle } from "./announcer";
import { startClock } from "./clock";
import { listenToKeys } from "./keys";
import { Page, PageProvider } from "./page";
import { followLocation, takeCarried } from "./route";
import "./style/tokens.css";
import "./style/frame.css";
import "./style/parts.css";
import "./style/forms.css";
import "./style/session.css";
import "./style/tools.css";
import { startTheme } from "./theme";
import { App } from "./ui/App";
import { startWorker } from "./worker";

startTheme();
startClock();

const page = new Page();
const carried = takeCarried();
followLocation();
listenToKeys(page);
announceQuestions(page);
countInTitle(page);

const root = document.getElementById("app");
if (root) {
  render(
    <PageProvider value={page}>
      <App />
    </PageProvider>,
    root,
  );
}
void page.start(carried);
void startWorker();
