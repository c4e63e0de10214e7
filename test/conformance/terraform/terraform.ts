import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { XMLParser } from "fast-xml-parser";
import { z } from "zod";
import { startDevServer } from "../../support/dev-server.ts";
import type { Door } from "../../support/keys.ts";
import { mustRun, run } from "../../support/processes.ts";
import { S3 } from "../../support/s3.ts";
import { removeScratch, scratchFolder } from "../../support/scratch.ts";

/**
 * `node test/conformance/terraform/terraform.ts`: whether the states that Terraform or OpenTofu keep in a branch are one chain.
 * Applies at the same time, each of one resource more, wait for each other by a lock file; the versions of the state must then
 * have the serials 1, 2, 3 and so on, of one lineage, and each all that the one before had. By hand, since no package registry
 * has a Terraform.
 */

const APPLIES = 20;
const BUCKET = "states";
const STATE = "site/terraform.tfstate";
/** What a program of Go reads on a machine of its own: nothing of this user's. */
const NO_FILES = { AWS_CONFIG_FILE: "/dev/null", AWS_SHARED_CREDENTIALS_FILE: "/dev/null" };

const configuration = (endpoint: string): string => `
terraform {
  backend "s3" {
    bucket                      = "${BUCKET}"
    key                         = "${STATE}"
    region                      = "us-east-1"
    endpoints                   = { s3 = "${endpoint}" }
    use_path_style              = true
    encrypt                     = true
    use_lockfile                = true
    skip_credentials_validation = true
    skip_metadata_api_check     = true
    skip_region_validation      = true
    skip_requesting_account_id  = true
  }
}
resource "terraform_data" "one" {
  for_each = toset([for number in range(${APPLIES}) : tostring(number)])
  input    = each.key
}
`;

const State = z.object({
  serial: z.number(),
  lineage: z.string(),
  resources: z.array(z.object({ instances: z.array(z.object({ index_key: z.string() })) })),
});

async function main(): Promise<void> {
  const program = await found("terraform", "tofu");
  const server = await startDevServer({ variables: { SLUICE_DISK_ENCRYPTED: "on" } });
  const folder = scratchFolder();
  try {
    await new S3(server).createBucket(BUCKET);
    const began = Date.now();
    const ended = await Promise.allSettled(
      Array.from({ length: APPLIES }, (_, number) => apply(program, { server, folder, number })),
    );
    const seconds = (Date.now() - began) / 1000;
    const failed = ended.filter((each) => each.status === "rejected");
    for (const { reason } of failed) console.error(String(reason));
    const serials = await chainOf(server);
    const version = (await mustRun([program, "version"])).split("\n")[0];
    console.log(
      `${version}: ${APPLIES} applies at once, ${failed.length} failed, in ${seconds.toFixed(0)} s`,
    );
    console.log(`serials ${serials.join(" ")}: one chain`);
    if (failed.length > 0) process.exitCode = 1;
  } finally {
    await server.stop();
    removeScratch(folder);
  }
}

async function found(...names: readonly string[]): Promise<string> {
  for (const name of names) {
    const { code } = await run(["sh", "-c", 'command -v "$1"', "sh", name]);
    if (code === 0) return name;
  }
  throw new Error(`there is none of ${names.join(", ")} here`);
}

/** One apply, in a folder of its own, as on another machine. */
async function apply(
  program: string,
  { server, folder, number }: { readonly server: Door; readonly folder: string; readonly number: number },
): Promise<void> {
  const cwd = join(folder, String(number));
  mkdirSync(cwd);
  writeFileSync(join(cwd, "main.tf"), configuration(server.endpoint));
  const env = {
    HOME: cwd,
    AWS_ACCESS_KEY_ID: server.accessKeyId,
    AWS_SECRET_ACCESS_KEY: server.secretAccessKey,
    ...NO_FILES,
  };
  await mustRun([program, "init", "-input=false", "-no-color"], { cwd, env });
  const target = `-target=terraform_data.one["${number}"]`;
  const options = ["-auto-approve", "-input=false", "-no-color", "-lock-timeout=900s", target];
  await mustRun([program, "apply", ...options], { cwd, env });
}

/** The serials of all versions of the state, oldest first. Throws unless they are one chain that loses nothing. */
async function chainOf(door: Door): Promise<number[]> {
  const s3 = new S3(door);
  const listed = await s3.ask("GET", `/${BUCKET}?versions&prefix=${STATE}`);
  const xml = new XMLParser({ parseTagValue: false, isArray: (name) => name === "Version" });
  const versions: { Key: string; VersionId: string }[] = xml.parse(listed.text).ListVersionsResult.Version;
  const ids = versions.filter(({ Key }) => Key === STATE).map(({ VersionId }) => VersionId);
  let before: { readonly serial: number; readonly lineage?: string; readonly has: ReadonlySet<string> } = {
    serial: 0,
    has: new Set(),
  };
  const serials: number[] = [];
  for (const id of ids.toReversed()) {
    const { text } = await s3.ask("GET", `/${BUCKET}/${STATE}?versionId=${id}`);
    const { serial, lineage, resources } = State.parse(JSON.parse(text));
    const has = new Set(resources.flatMap(({ instances }) => instances.map(({ index_key }) => index_key)));
    const lost = [...before.has].filter((key) => !has.has(key));
    if (serial !== before.serial + 1) throw new Error(`serial ${serial} follows ${before.serial}`);
    if (lineage !== (before.lineage ?? lineage)) throw new Error(`serial ${serial} is of another lineage`);
    if (lost.length > 0) throw new Error(`serial ${serial} has lost ${lost.join(", ")}`);
    serials.push(serial);
    before = { serial, lineage, has };
  }
  if (before.has.size !== APPLIES)
    throw new Error(`the last state has ${before.has.size} of ${APPLIES} resources`);
  return serials;
}

await main();
process.exit();
