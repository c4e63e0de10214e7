#!/usr/bin/env node
// Starts the CLI: in the repository from the TypeScript sources, in the package from the JavaScript made of them.
// If this Node is too old, runs itself again with the one that npm installed as an optional package. Plain
// JavaScript, so that every Node can read this far.
import { spawn } from "node:child_process";
import { existsSync, readFileSync, statSync } from "node:fs";
import module, { createRequire } from "node:module";
import { constants } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const HERE = fileURLToPath(import.meta.url);
const SECOND_RUN = "SLUICE_SECOND_RUN";
// A constant, since tools that follow imports would miss it in the repository.
const COMPILED = "../dist/cli/main.js";
// Words of commands that take longer than their start, or run somebody's program: they are not started from the bundle.
const LONG = ["dev", "runner", "datum", "doctor", "support"];
const NODE_PACKAGE = `node-${process.platform}-${process.arch}`;

// What the packages need that we use; it also takes TypeScript as it is.
function isNewEnough() {
  const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);
  return major > 22 || (major === 22 && minor >= 19);
}

function installedNode() {
  try {
    const node = join(dirname(createRequire(HERE).resolve(`${NODE_PACKAGE}/package.json`)), "bin/node");
    return existsSync(node) ? node : undefined;
  } catch {
    return undefined;
  }
}

function runAgain(node) {
  const child = spawn(node, [HERE, ...process.argv.slice(2)], {
    stdio: ["inherit", "inherit", "inherit", "ipc"],
    env: { ...process.env, [SECOND_RUN]: "1" },
  });
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => child.kill(signal));
  child.on("error", ({ message }) => refuse(`the one in ${node} does not start: ${message}`));
  child.on("exit", (code, signal) => {
    if (code !== null) process.exit(code);
    // As that one ended, so that a shell knows that its loop was meant as well. SIGKILL is for this process alone.
    process.removeAllListeners(signal);
    process.kill(process.pid, signal);
    setTimeout(() => process.exit(128 + constants.signals[signal]), 1000);
  });
}

function refuse(why) {
  console.error(`error: Sluice needs Node 22.19 or newer and this is ${process.versions.node}; ${why}`);
  process.exit(1);
}

// The commands as few files, which `cli/bundle.ts` makes: undefined if there are none that are as the sources are now.
function bundled(root, cache) {
  try {
    const made = JSON.parse(readFileSync(join(cache, "made.json"), "utf8"));
    const isAsItWas = ([path, changedAt, sizeBytes]) => {
      const { mtimeMs, size } = statSync(join(root, path));
      return mtimeMs === changedAt && size === sizeBytes;
    };
    if (made.root === root && made.files.every(isAsItWas)) return join(cache, made.folder, "main.mjs");
  } catch {}
  return undefined;
}

// What runs the commands in a repository: the bundle, made first if it has to be, or the modules themselves.
async function commandsOf(root, cache) {
  const modules = () => import("../cli/main.ts");
  if (process.argv.some((word) => LONG.includes(word))) return modules();
  if (!bundled(root, cache)) {
    try {
      await (await import("../cli/bundle.ts")).bundleCommands(cache);
    } catch {
      // A folder that is not ours to write to, or a source with an error in it, which is told when it is loaded.
    }
  }
  const bundle = bundled(root, cache);
  return bundle ? import(bundle) : modules();
}

if (isNewEnough()) {
  if (process.env[SECOND_RUN] && process.channel) {
    // The first run was killed: without it nobody could stop this one any more.
    process.on("disconnect", () => process.kill(process.pid, "SIGTERM"));
    process.channel.unref();
  }
  delete process.env[SECOND_RUN];
  const root = join(dirname(HERE), "..");
  const sources = existsSync(join(root, "cli/main.ts"));
  const cache = join(root, "node_modules/.cache/sluice");
  // Compiled code is kept, which halves the time of a start. Not for the package: the folder of its packages may not
  // be this user's, and others could put code into a folder for temporary files.
  if (sources) module.enableCompileCache(cache);
  const { main } = await (sources ? commandsOf(root, cache) : import(COMPILED));
  await main(process.argv.slice(2));
} else {
  const node = process.env[SECOND_RUN] ? undefined : installedNode();
  if (node) runAgain(node);
  else refuse(`install one, or the optional packages of Sluice, of which ${NODE_PACKAGE} brings one`);
}
