import { realpath } from "node:fs/promises";
import { join, resolve } from "node:path";
import { unlessAborted } from "../lib/concurrency.ts";
import { ConfigError } from "../lib/fault.ts";
import { folderSecrets } from "./folder.ts";
import { kubernetesSecrets } from "./kubernetes.ts";
import { type Asker, checkScope } from "./scope.ts";
import {
  type KeptSecret,
  type Secret,
  SecretMissing,
  type SecretSource,
  type SecretStore,
} from "./source.ts";

const KUBERNETES = /^kubernetes(?::(?<namespace>.+))?$/;

/** The secrets of a runner, which it shows to nobody but a pipeline. */
export interface Secrets {
  /** Those that a pipeline may use, for its commands, its image and its egress alike. */
  for(asker: Asker): SecretSource;
}

/** What the runner itself signs with. It opens what no single pipeline may see, so no pipeline gets it, whoever asks. */
interface OwnKey {
  readonly secretAccessKey: string;
  /** The name of the secret that it comes from, if it comes from one. Its next key is there before this runner knows it. */
  readonly secretName?: string | undefined;
}

export interface SecretsOptions {
  readonly own: OwnKey;
  /** Ends what is under way. */
  readonly kill: AbortSignal;
}

/** The secrets that `--secrets` names: a folder, or `kubernetes[:namespace]`. Without it, every secret is missing. */
export function openSecrets(setting: string | undefined, { own, kill }: SecretsOptions): Secrets {
  const store =
    setting === undefined ? NONE : remembered(storeOf(setting), { kill, now: () => performance.now() });
  return {
    for: (asker) => ({
      async read(name, signal) {
        if (name === own.secretName) throw ownKeyIn(name);
        const { secret, scope } = await store.read(name, signal);
        if (holds(secret, own.secretAccessKey)) throw ownKeyIn(name);
        checkScope(name, scope, asker);
        return secret;
      },
    }),
  };
}

/** Whether a text is anywhere in a secret, such as in a file of variables. */
function holds(secret: Secret, text: string): boolean {
  return [...secret.values()].some((bytes) =>
    Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).includes(text),
  );
}

function ownKeyIn(name: string): SecretMissing {
  return new SecretMissing(
    `secret "${name}" holds the key of this runner, which no pipeline gets: give the pipeline a key of its own`,
  );
}

/** The folder of secrets that a setting names; undefined if it names none. */
export function secretsFolder(setting: string | undefined): string | undefined {
  return setting === undefined || KUBERNETES.test(setting) ? undefined : resolve(setting);
}

/**
 * Throws ConfigError if the data folder is in the folder of secrets, or is that folder. What is in it would then be a secret
 * for whoever names it: the inputs of all pipelines, and the keys of `sluice dev`. `dataDir` is without links.
 */
export async function checkSecretsFolder(folder: string | undefined, dataDir: string): Promise<void> {
  if (folder === undefined) return;
  // It may be mounted after the runner has started.
  const real = await realpath(folder).catch(() => folder);
  if (dataDir !== real && !dataDir.startsWith(join(real, "/"))) return;
  throw new ConfigError(
    `--secrets is "${folder}", which holds the data folder ${dataDir}; it must be a folder of secrets alone`,
  );
}

function storeOf(setting: string): SecretStore {
  const kubernetes = KUBERNETES.exec(setting);
  if (!kubernetes) return folderSecrets(resolve(setting));
  const namespace = kubernetes.groups?.namespace;
  return kubernetesSecrets({ ...(namespace && { namespace }) });
}

const NONE: SecretStore = {
  read: async (name) => {
    throw new SecretMissing(
      `secret "${name}" can't be looked up: this runner was started without --secrets (SLUICE_SECRETS)`,
    );
  },
};

/** A secret that was replaced is seen at most this much later. */
const FRESH_MS = 30_000;

export interface RememberOptions {
  /** Ends questions: they outlive the datum that asked first, since others may wait for the same secret. */
  readonly kill: AbortSignal;
  /** A clock, in milliseconds. */
  readonly now: () => number;
}

/** The same secrets, kept in memory for a while so that not every datum asks for them. Failures are not kept. */
export function remembered(store: SecretStore, { kill, now }: RememberOptions): SecretStore {
  const known = new Map<string, { readonly at: number; readonly secret: Promise<KeptSecret> }>();
  const ask = (name: string): Promise<KeptSecret> => {
    const before = known.get(name);
    if (before && now() - before.at < FRESH_MS) return before.secret;
    const secret = store.read(name, kill);
    const entry = { at: now(), secret };
    known.set(name, entry);
    secret.catch(() => known.get(name) === entry && known.delete(name));
    return secret;
  };
  return { read: (name, signal) => unlessAborted(ask(name), signal) };
}
