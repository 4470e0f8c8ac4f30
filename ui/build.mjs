// Builds entrypoint.js, the one script that front ends load: `npm install --no-package-lock`, then
// `npm run build`. Its first line holds a hash of the sources, so that a stale one is found without Node.
import { createHash } from "node:crypto";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const isSource = (name) => /\.tsx?$/.test(name) || ["build.mjs", "package.json", "props.schema.json"].includes(name);

const hash = createHash("sha256");
for (const name of readdirSync(here).filter(isSource).sort()) {
  hash.update(`${name}\n`).update(readFileSync(`${here}/${name}`));
}

// React and the stream's context come from the page that loads the script.
const ofThePage = {
  name: "of-the-page",
  setup({ onResolve, onLoad }) {
    const filter = /^(react(\/jsx-runtime)?|@langchain\/langgraph-sdk\/react-ui)$/;
    onResolve({ filter }, ({ path }) => ({ path, namespace: "page" }));
    onLoad({ filter: /.*/, namespace: "page" }, ({ path }) => ({
      contents: `module.exports = globalThis[Symbol.for("LGUI_REQUIRE")](${JSON.stringify(path)})`,
    }));
  },
};

// Words about a field are for people who read the schema.
const withoutWords = {
  name: "schema-without-words",
  setup({ onLoad }) {
    onLoad({ filter: /\.schema\.json$/ }, ({ path }) => {
      const drop = (key, value) =>
        ["title", "description"].includes(key) && typeof value !== "object" ? undefined : value;
      return { contents: JSON.stringify(JSON.parse(readFileSync(path, "utf8"), drop)), loader: "json" };
    });
  },
};

const { outputFiles } = await build({
  absWorkingDir: here,
  entryPoints: ["entrypoint.tsx"],
  bundle: true,
  minify: true,
  write: false,
  format: "iife",
  jsx: "automatic",
  target: "es2022",
  legalComments: "none",
  plugins: [ofThePage, withoutWords],
});
const header = `/* loopwright: built by "npm run build" of sources ${hash.digest("hex")} */\n`;
writeFileSync(process.argv[2] ?? `${here}/entrypoint.js`, header + outputFiles[0].text);
