import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { defineConfig } from "vite";

// Built after the page, whose files it names: it keeps them for when there is no network.
const BUILT = new URL("../static/", import.meta.url);

function shell(): { name: string; files: string[] } {
  const names = (readdirSync(BUILT, { recursive: true }) as string[]).sort();
  const files = names.filter((name) => /\.(html|js|css|svg|png|webmanifest)$/.test(name));
  const hash = createHash("sha256");
  for (const file of files) hash.update(readFileSync(new URL(file, BUILT)));
  const kept = files.map((file) => (file === "index.html" ? "/" : `/${file}`));
  return { name: hash.digest("hex").slice(0, 16), files: kept.filter((one) => one !== "/sw.js") };
}

export default defineConfig({
  publicDir: false,
  define: { __SHELL__: JSON.stringify(shell()) },
  build: {
    outDir: "../static",
    emptyOutDir: false,
    target: "es2022",
    rollupOptions: {
      input: "src/sw.ts",
      output: { format: "iife", entryFileNames: "sw.js" },
    },
  },
});
