import { render } from "preact";

const root = document.getElementById("app");
if (root) {
  render(<h1>Chimera Bridge</h1>, root);
}
