import type { BranchApi } from "../../../../worker/branch/contract/api.ts";
import type { SimulatedObject } from "../../platform/objects.ts";
import type { Simulation } from "../../platform/simulation.ts";
import type { JobsWorld } from "./clients.ts";

/** What a branch that is deleted has no rows of. Its name, its generations and how each ended, and clocks stay. */
const OF_A_BRANCH = [
  ...["files", "contents", "blobs", "pending_deletions", "uploads", "holds", "ended", "multiparts", "parts"],
  ...[
    "tags",
    "tag_news",
    "untagged",
    "lineages",
    "open_commits",
    "staged",
    "applying",
    "reverting",
    "held",
    "starts",
  ],
  ...[
    "forks",
    "roots",
    "give_backs",
    "fork_holds",
    "fork_hold_asks",
    "erasures",
    "erasures_heard",
    "revived",
  ],
  ...["exports", "imports", "lifecycle_scans", "subscribers", "outbox", "orphans"],
];
/** What stays of a pipeline: its tombstone, and whether its database was written anew. */
const OF_A_PIPELINE = ["family", "pipeline", "rewrite"];

/** Files of output branches whose bytes are not there. */
export async function lostBytes({ simulation, pipelines }: JobsWorld): Promise<string[]> {
  const faults: string[] = [];
  for (const { name } of pipelines) {
    const branch = simulation.branch(`master.${name}`);
    const log = await branch.history.list({ limit: 1000 });
    for (const { id } of log.ok ? log.commits : []) {
      for (const path of await lostAt(simulation, { branch, commit: id }))
        faults.push(`the output of ${name} has lost the bytes of ${path} at ${id}`);
    }
  }
  return faults;
}

async function lostAt(
  { blobs }: Pick<Simulation, "blobs">,
  { branch, commit }: { branch: BranchApi; commit: string },
): Promise<string[]> {
  const page = await branch.files.list({ prefix: "", limit: 1000, commit });
  const lost: string[] = [];
  for (const entry of page.ok ? page.entries : []) {
    if (entry.kind !== "file") continue;
    const read = await branch.files.read({ path: entry.path, commit });
    const body = read.ok ? read.body : undefined;
    const isThere =
      body?.kind === "inline" ||
      (body?.kind === "chunks" && body.chunks.every(({ blob }) => blobs.blobs.has(blob)));
    if (!isThere) lost.push(entry.path);
  }
  return lost;
}

/** What is left when all pipelines and branches are deleted. */
export function remains({ simulation, recorders }: JobsWorld): string[] {
  const named = new Set([...recorders.values()].flatMap(({ blobs }) => [...blobs]));
  const blobs = [...simulation.blobs.blobs.keys()].filter(
    (name) => named.has(name) || name.startsWith("m/pipelines/"),
  );
  return [
    ...blobs.map((name) => `the blob ${name} is left`),
    ...simulation.branches.all().flatMap((object) => rowsOf(object, OF_A_BRANCH)),
    ...simulation.pipelines.all().flatMap((object) =>
      rowsOf(
        object,
        tablesOf(object).filter((table) => !OF_A_PIPELINE.includes(table)),
      ),
    ),
  ];
}

function tablesOf({ storage }: SimulatedObject): string[] {
  return storage
    .read<{ name: string }>("SELECT name FROM sqlite_master WHERE type = 'table'")
    .map(({ name }) => name);
}

function rowsOf({ name, storage }: SimulatedObject, tables: readonly string[]): string[] {
  return tables.flatMap((table) => {
    if (!storage.has(table)) return [];
    const [row] = storage.read<{ n: number }>(`SELECT count(*) AS n FROM "${table}"`);
    return row && row.n > 0 ? [`${name} has ${row.n} rows of ${table} left`] : [];
  });
}
