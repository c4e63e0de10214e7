import { readdirSync } from "node:fs";
import { join } from "node:path";
import { type Unstable_Config, unstable_readConfig } from "wrangler";

/** What an environment of wrangler.toml names. */
export interface Resources {
  readonly worker: string;
  readonly database: string;
  readonly bucket: string;
  /** The jurisdiction that all of it is to be in; undefined: none. */
  readonly jurisdiction?: string | undefined;
  /** The files of `migrations/`, in order. */
  readonly migrations: readonly string[];
}

/** wrangler.toml can't be deployed as it is. */
export class ConfigProblem extends Error {
  override readonly name = "ConfigProblem";
}

const ROOT = join(import.meta.dirname, "../..");

/** Reads wrangler.toml. Throws a ConfigProblem if it lacks the environment, or if that lacks what the gateway needs. */
export function readResources(environment: string, file = join(ROOT, "wrangler.toml")): Resources {
  const base = read("", file);
  const names = base.definedEnvironments ?? [];
  if (environment !== "" && !names.includes(environment)) {
    throw new ConfigProblem(
      `wrangler.toml has no environment '${environment}': it has ${names.join(", ") || "none"}`,
    );
  }
  const config = read(environment, file);
  const lacking = bindingsOf(base).filter((binding) => !bindingsOf(config).includes(binding));
  if (lacking.length > 0) {
    throw new ConfigProblem(
      `the environment '${environment}' of wrangler.toml lacks what its top level has: ${lacking.join(", ")}`,
    );
  }
  const database = config.d1_databases.find(({ binding }) => binding === "DB")?.database_name;
  const bucket = config.r2_buckets.find(({ binding }) => binding === "BLOBS")?.bucket_name;
  if (!config.name || !database || typeof bucket !== "string") {
    throw new ConfigProblem("wrangler.toml must name the Worker, the database DB and the bucket BLOBS");
  }
  return {
    worker: config.name,
    database,
    bucket,
    jurisdiction: jurisdictionOf(config),
    migrations: migrations(),
  };
}

/** That of the objects, which the bucket must have, too: its binding reaches a bucket of the same jurisdiction alone. */
function jurisdictionOf({ vars, r2_buckets }: Unstable_Config): string | undefined {
  const { SLUICE_JURISDICTION: ofObjects } = vars as Readonly<Record<string, string | undefined>>;
  const ofBucket = r2_buckets.find(({ binding }) => binding === "BLOBS")?.jurisdiction;
  if (ofObjects === ofBucket) return ofObjects;
  throw new ConfigProblem(
    `wrangler.toml has SLUICE_JURISDICTION = ${JSON.stringify(ofObjects ?? null)} in [vars], and jurisdiction = ${JSON.stringify(ofBucket ?? null)} of the bucket BLOBS: both must be the same`,
  );
}

function read(environment: string, file: string): Unstable_Config {
  return unstable_readConfig({ config: file, env: environment }, { hideWarnings: true });
}

/** Of each kind the names; an environment inherits none of them. */
function bindingsOf(config: Unstable_Config): string[] {
  return [
    ...config.d1_databases.map(({ binding }) => binding),
    ...config.r2_buckets.map(({ binding }) => binding),
    ...config.durable_objects.bindings.map(({ name }) => name),
    ...Object.keys(config.vars),
    ...(config.version_metadata ? [config.version_metadata.binding] : []),
    ...(config.assets?.binding ? [config.assets.binding] : []),
  ];
}

function migrations(): string[] {
  const files = readdirSync(join(ROOT, "migrations")).filter((name) => name.endsWith(".sql"));
  return files.sort();
}
