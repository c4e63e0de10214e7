import { randomUUID } from "node:crypto";
import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import type { Command } from "commander";
import { lockDataFolder } from "../../../embedded/data/data-lock.ts";
import { readHolder } from "../../../embedded/data/holder.ts";
import { type ScrubExtent, scrub } from "../../../embedded/scrub/scrub.ts";
import { endOrphan } from "../../../embedded/workerd/workerd.ts";
import { ScrubState } from "../../../protocol/admin.ts";
import { isAway } from "../../gateway/client.ts";
import { withClient } from "../../gateway/with-client.ts";
import { type ClientOptions, withClientOptions } from "../../options.ts";
import { CliError } from "../../output/failure.ts";
import { count, printJson, printLine, showSize } from "../../output/output.ts";

interface Options extends ClientOptions {
  readonly all?: true;
}

type Done = Omit<ScrubState, "id" | "state">;

/** Between two looks at a scrub that is under way. */
const LOOK_MS = 200;
/** So long a gateway that is away for a scrub is asked again although nothing answers at its address. */
const SILENCE_MS = 60_000;

/** `sluice admin scrub` */
export function addAdminScrub(group: Command): void {
  const command = group
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
      const { failed, ...told } = done;
      if (options.json) printJson(done);
      else printLine(textOf(told));
      if (failed.length === 0) return;
      throw new CliError(
        `${count(failed.length, "database")} could not be written anew and may still have what was erased`,
        { code: "NotScrubbed", issues: failed.map(({ file, message }) => ({ path: file, message })) },
      );
    });
  withClientOptions(command, "sluice admin scrub", "sluice admin scrub --data /srv/sluice --all");
}

function textOf({ rewritten, bytesBefore, bytesAfter }: Omit<Done, "failed">): string {
  if (rewritten === 0) return "nothing was erased since the last scrub: nothing is to be written anew";
  return `${count(rewritten, "database")} written anew: ${showSize(bytesBefore)}, now ${showSize(bytesAfter)}`;
}

function extentOf({ all }: Options): ScrubExtent {
  return all ? "all" : "owed";
}

/** Scrubs a folder on which no gateway runs. Undefined: one does. */
async function scrubHere(dataDir: string, options: Options): Promise<Done | undefined> {
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
    const { failed, ...done } = scrub({ stateDir, extent: extentOf(options), now: Date.now() });
    return { ...done, failed: [...failed] };
  } finally {
    lock.release();
  }
}

/** Asks the gateway, and waits until it is back. */
async function askFor(options: Options): Promise<Done> {
  return await withClient(options, async (client) => {
    const ask = { path: "/admin/scrub" } as const;
    const json = { id: randomUUID(), ...(options.all && { all: true }) };
    const { id } = await client.call(ScrubState, { ...ask, method: "POST", json, repeatable: true });
    for (;;) {
      const state = await whenBack(() => client.call(ScrubState, { ...ask, method: "GET" }));
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
  const deadline = Date.now() + SILENCE_MS;
  for (;;) {
    try {
      return await ask();
    } catch (error) {
      const isGone = !(error instanceof CliError && "status" in error) && Date.now() > deadline;
      if (!isAway(error) || isGone) throw error;
      await pause(LOOK_MS);
    }
  }
}
