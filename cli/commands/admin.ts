import { randomUUID } from "node:crypto";
import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { lockDataFolder } from "../../embedded/data/data-lock.ts";
import { readHolder } from "../../embedded/data/holder.ts";
import { type Scrubbed, scrub } from "../../embedded/scrub/scrub.ts";
import { endOrphan } from "../../embedded/workerd/workerd.ts";
import { CatalogueRebuilt, ScrubState } from "../../protocol/admin.ts";
import { type Command, withClient } from "../command.ts";
import { allPages, type Client, isAway, pagesOf } from "../gateway/client.ts";
import type { ClientOptions } from "../options.ts";
import { CliError } from "../output/failure.ts";
import { count, printJson, printLine, showSize } from "../output/output.ts";

export function addAdmin(program: Command): void {
  program
    .group("admin")
    .summary("rebuild the catalogue, scrub the data folder")
    .description(
      "What the operator of a gateway does. It needs a key of level admin that is not limited to repos.",
    )
    .holds(addAdminRebuild, addAdminScrub);
}

function addAdminRebuild(group: Command): void {
  group
    .command("rebuild")
    .description(
      "Makes the catalogue (D1) from the branches and pipelines themselves: which there are, what branches are set to, their tags, the jobs of each pipeline that are listed. For a catalogue that was lost, or went back in time. With the root key, buckets are read and written all the while, whether the catalogue is there or not; lists of buckets, tags, pipelines and jobs come back with it, and public branches answer without a signature again.\n\nAll other access keys are in D1 alone and can't be rebuilt: keep them with 'sluice key export', bring them back with 'sluice key import'. Nodes come back by themselves. Drain marks are gone.",
    )
    .clientAction(async (client, options: ClientOptions) => {
      const { failed, ...done } = await rebuildAll(client);
      if (options.json) printJson({ ...done, failed });
      else {
        printLine(
          `the catalogue knows of ${count(done.branches, "branch", "branches")} and ${count(done.pipelines, "pipeline")}`,
        );
        for (const name of done.missing)
          printLine(`${name} left a marker, and nothing else: it is not there`);
        printLine(
          "access keys are in D1 alone: if they are lost, 'sluice key import' brings back what 'sluice key export' kept",
        );
      }
      if (failed.length === 0) return;
      const message = "could not be reached, or is being changed";
      const issues = failed.map((path) => ({ path, message }));
      const words = `${failed.length} could not tell the catalogue of themselves: run it again`;
      throw new CliError(words, { code: "NotRebuilt", issues });
    })
    .clientOptions("sluice admin rebuild", "sluice admin rebuild --json | jq .branches");
}

async function rebuildAll(client: Client): Promise<Omit<CatalogueRebuilt, "next">> {
  const ask = (after: string | undefined) =>
    client.post(CatalogueRebuilt, "/admin/rebuild", { query: { after }, repeatable: true });
  const pages = await allPages(pagesOf(ask));
  const total = (what: "branches" | "pipelines" | "deleted") =>
    pages.reduce((sum, page) => sum + page[what], 0);
  return {
    ...{ branches: total("branches"), pipelines: total("pipelines"), deleted: total("deleted") },
    missing: pages.flatMap(({ missing }) => missing),
    failed: pages.flatMap(({ failed }) => failed),
  };
}

interface Options extends ClientOptions {
  readonly all?: true;
}

/** Between two looks at a scrub that is under way. */
const LOOK_MS = 200;
/** So long a gateway that is away for a scrub is asked again although nothing answers at its address. */
const SILENCE_MS = 60_000;

function addAdminScrub(group: Command): void {
  group
    .command("scrub")
    .description(
      "Writes those databases of a gateway on one machine anew that something was erased or redacted from: files up to 4 KiB, names, metadata and messages are then in no file of its data folder. The gateway stops for that and starts again: for some seconds requests are answered with 503, or refused, and those that are under way are cut; clients ask again. Each start of a gateway does the same.\n\nIf no gateway runs on the folder that --data names, this command does it by itself, and needs no key. A database needs as much free room as it has for the time that it is written. On Cloudflare there is no scrub.",
    )
    .option(
      "--all",
      "every database, also those that nothing was erased from since they were last written anew",
    )
    .action(async (options: Options) => {
      const here = options.data === undefined ? undefined : await scrubHere(resolve(options.data), options);
      const done = here ?? (await askFor(options));
      const { failed } = done;
      if (options.json) printJson(done);
      else printLine(textOf(done));
      if (failed.length === 0) return;
      throw new CliError(
        `${count(failed.length, "database")} could not be written anew and may still have what was erased`,
        { code: "NotScrubbed", issues: failed.map(({ file, message }) => ({ path: file, message })) },
      );
    })
    .clientOptions("sluice admin scrub", "sluice admin scrub --data /srv/sluice --all");
}

function textOf({ rewritten, bytesBefore, bytesAfter }: Scrubbed): string {
  if (rewritten === 0) return "nothing was erased since the last scrub: nothing is to be written anew";
  return `${count(rewritten, "database")} written anew: ${showSize(bytesBefore)}, now ${showSize(bytesAfter)}`;
}

/** Scrubs a folder on which no gateway runs. Undefined: one does. */
async function scrubHere(dataDir: string, options: Options): Promise<Scrubbed | undefined> {
  const stateDir = join(dataDir, "state");
  if (!existsSync(stateDir)) {
    throw new CliError(`${dataDir} is no data folder of a gateway: there is no folder 'state' in it`, {
      code: "NoData",
    });
  }
  const holder = readHolder(dataDir);
  let lock: ReturnType<typeof lockDataFolder>;
  try {
    lock = lockDataFolder(dataDir);
  } catch (error) {
    if (holder?.endpoint) return undefined;
    throw error;
  }
  try {
    await endOrphan(dataDir);
    return scrub({ stateDir, extent: options.all ? "all" : "owed", now: Date.now() });
  } finally {
    lock.release();
  }
}

/** Asks the gateway, and waits until it is back. */
async function askFor(options: Options): Promise<Scrubbed> {
  return await withClient(options, async (client) => {
    const json = { id: randomUUID(), ...(options.all && { all: true }) };
    const { id } = await client.post(ScrubState, "/admin/scrub", { json, repeatable: true });
    for (;;) {
      const state = await whenBack(() => client.get(ScrubState, "/admin/scrub"));
      if (state.id !== id) {
        throw new CliError("the gateway was started anew meanwhile, which scrubs as well: see its log", {
          code: "NotScrubbed",
        });
      }
      if (state.state !== "running") return state;
      await pause(LOOK_MS);
    }
  });
}

/** What it answers once the gateway answers again. */
async function whenBack<T>(ask: () => Promise<T>): Promise<T> {
  const deadline = performance.now() + SILENCE_MS;
  for (;;) {
    try {
      return await ask();
    } catch (error) {
      const isGone = !(error instanceof CliError && "status" in error) && performance.now() > deadline;
      if (!isAway(error) || isGone) throw error;
      await pause(LOOK_MS);
    }
  }
}
