import {
  chmodSync,
  closeSync,
  constants,
  fstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { z } from "zod";
import { AccessKey } from "../../../embedded/data/keys.ts";
import { jsonOf } from "../../../protocol/json.ts";
import { CliError } from "../../output/failure.ts";

/**
 * Gateways that a user keeps by name, each with its key: a file of JSON for each in `contexts/` of the user's configuration
 * folder, and the file `context` there, which has the name of the one in use. A file is a whole one or none, so that two
 * commands at once lose nothing. Secrets are in them: folder and files are the user's own, and what others may read is
 * refused instead of used.
 */

/** An address and the key for it. */
const Context = AccessKey.extend({ endpoint: z.string() });
export type Context = z.infer<typeof Context>;

type Variables = Readonly<Record<string, string | undefined>>;

/** The user's configuration folder: `$XDG_CONFIG_HOME/sluice`, else `~/.config/sluice`. */
export function configFolder({ XDG_CONFIG_HOME }: Variables): string {
  return join(XDG_CONFIG_HOME || join(homedir(), ".config"), "sluice");
}

/** A context and the file that it is in. Throws a CliError if there is none, or others may read it. */
export function readContext(name: string, env: Variables): Context & { readonly file: string } {
  const file = contextFile(name, env);
  const text = readOwn(file, env);
  if (text === undefined) {
    throw new CliError(`there is no context ${name}: 'sluice context list' shows those there are`, {
      code: "NoSuchContext",
    });
  }
  const context = Context.safeParse(jsonOf(text));
  if (context.success) return { ...context.data, file };
  throw new CliError(`${file} holds no context: remove it with 'sluice context remove ${name}'`, {
    code: "BadContext",
  });
}

/** Keeps a context; one of the same name is replaced. */
export function keepContext(name: string, { context, env }: { context: Context; env: Variables }): void {
  mkdirSync(contextsFolder(env), { recursive: true, mode: 0o700 });
  mustBeOwn(configFolder(env));
  // A folder that other programs' settings brought is closed, since secrets are put there now.
  chmodSync(configFolder(env), 0o700);
  writeWhole(contextFile(name, env), `${JSON.stringify(context, null, 2)}\n`);
}

/** The names of all contexts, in order. */
export function contextNames(env: Variables): string[] {
  const entries = entriesOf(contextsFolder(env));
  return entries
    .flatMap((entry) => (entry.endsWith(".json") ? [entry.slice(0, -".json".length)] : []))
    .sort();
}

/** The name of the context in use; undefined if none is. */
export function contextInUse(env: Variables): string | undefined {
  return readOwn(inUseFile(env), env)?.trim() || undefined;
}

/** Throws a CliError if there is no such context. */
export function useContext(name: string, env: Variables): void {
  readContext(name, env);
  writeWhole(inUseFile(env), `${name}\n`);
}

/** Removes a context; if it was in use, none is. Returns whether it was there. */
export function removeContext(name: string, env: Variables): boolean {
  if (!contextNames(env).includes(name)) return false;
  // First, so that none is in use that is not there.
  if (contextInUse(env) === name) rmSync(inUseFile(env), { force: true });
  rmSync(contextFile(name, env), { force: true });
  return true;
}

function contextsFolder(env: Variables): string {
  return join(configFolder(env), "contexts");
}

function contextFile(name: string, env: Variables): string {
  return join(contextsFolder(env), `${name}.json`);
}

function inUseFile(env: Variables): string {
  return join(configFolder(env), "context");
}

/** A file of the user alone; undefined if it is not there. What is looked at is what is read: a link is not followed. */
function readOwn(file: string, env: Variables): string | undefined {
  let opened: number;
  try {
    opened = openSync(file, constants.O_RDONLY | constants.O_NOFOLLOW);
  } catch (error) {
    if (["ENOENT", "ENOTDIR"].includes((error as NodeJS.ErrnoException).code ?? "")) return undefined;
    throw error;
  }
  try {
    mustBeOwn(configFolder(env));
    const { uid, mode } = fstatSync(opened);
    refuseUnlessOwn(file, { uid, mode });
    return readFileSync(opened, "utf8");
  } finally {
    closeSync(opened);
  }
}

/** Others may not put another file into the folder. */
function mustBeOwn(folder: string): void {
  const { uid, mode } = statSync(folder);
  // Who may only list it learns names, and no secret.
  refuseUnlessOwn(folder, { uid, mode: mode & 0o022 });
}

function refuseUnlessOwn(path: string, { uid, mode }: { uid: number; mode: number }): void {
  if (uid !== process.getuid?.()) {
    throw new CliError(`${path} belongs to another user, so what it says is not used`, { code: "NotOwn" });
  }
  if ((mode & 0o077) !== 0) {
    throw new CliError(
      `others may read or change ${path}, which holds a secret: 'chmod go= ${path}', and change the key if they may have read it`,
      { code: "NotOwn" },
    );
  }
}

function writeWhole(file: string, text: string): void {
  const draft = `${file}.${process.pid}`;
  rmSync(draft, { force: true });
  writeFileSync(draft, text, { mode: 0o600, flag: "wx" });
  renameSync(draft, file);
}

function entriesOf(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return [];
    throw error;
  }
}
