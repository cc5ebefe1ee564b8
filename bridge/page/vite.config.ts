import { defineConfig } from "vitest/config";

export default defineConfig({
  base: "./",
  // The relay serves what is built here; the folder is git-ignored and made by hatch_build.py.
  build: {
    outDir: "../static",
    emptyOutDir: true,
    target: "es2022",
    modulePreload: { polyfill: false },
  },
  test: { environment: "node", include: ["src/**/*.test.{ts,tsx}"] },
});
