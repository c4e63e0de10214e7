import { changed } from "../../../../simulator/history/model.ts";
import { isSame } from "../../../../simulator/history/states.ts";
import type { Answer } from "../../../../support/http.ts";
import { objectTarget } from "../../../../support/s3.ts";
import { isAway, unexpected } from "../client.ts";
import type { Told } from "../life.ts";
import type { Load, OpenCommit, Work } from "../load.ts";

const KEYS = ["open/0", "open/1", "open/2"];

/** Open commits: what was put into one and answered is in it, and none or all of it becomes one commit. */
export const OPEN_COMMITS: Work = async (load) => {
  const left = load.openCommits.shift();
  const open = left ?? (await begun(load));
  try {
    await fill(load, open);
    // Somebody else goes on with it, maybe after the next start.
    if (!left && load.random() < 0.3) return void load.openCommits.push(open);
  } catch (error) {
    if (load.gate.isOver) load.openCommits.push(open);
    throw error;
  }
  if (load.random() < 0.75 && open.life.admits()) await finish(load, open);
  else await abort(load, open);
};

/** One commit whose tree is that of an earlier one, while others write. */
export const REVERTS: Work = async (load) => {
  const { history, client } = load;
  const life = load.branch();
  const target = life.newest(6).at(-1);
  const state = target === undefined ? undefined : life.stateOf(target);
  if (!state || load.random() < 0.92 || !life.admits()) return;
  const id = history.id();
  await history.ask(
    life,
    {
      ...{ id, kind: "revert", text: `revert ${id} to ${target}`, isLong: true },
      leads: ({ after }) => isSame(after.tree, state.tree),
    },
    {
      call: () => client.control("POST", `${life.path}/commits/${target}/revert`, { message: id }),
      told: ended,
    },
  );
};

async function begun(load: Load): Promise<OpenCommit> {
  const { client } = load;
  const life = load.branch();
  const opened = await client.until(() => client.control("POST", `${life.path}/sessions`));
  if (opened.status !== 201) throw unexpected(opened);
  const { session, bucket } = JSON.parse(opened.text);
  return { life, session, bucket, staged: new Map() };
}

async function fill(load: Load, { bucket, staged }: OpenCommit): Promise<void> {
  const { client } = load;
  for (const [n, key] of KEYS.entries()) {
    if (!staged.has(key)) staged.set(key, load.ownContent(800 + n * 30_000));
    const target = objectTarget(bucket, key);
    const bytes = staged.get(key)?.bytes ?? Buffer.alloc(0);
    const put = await client.until(() => client.s3("PUT", target, { body: bytes }));
    if (put.status !== 200) throw unexpected(put);
  }
  for (const [key, { bytes }] of staged) {
    const found = await client.until(() => client.s3("GET", objectTarget(bucket, key)));
    if (found.status !== 200 || !found.body.equals(bytes))
      load.history.faults.push(`${bucket}: ${key} is lost, or another one: ${found.status}`);
  }
}

/** Asks until it is answered: what comes of it is one commit. */
async function finish(load: Load, { life, session, staged }: OpenCommit): Promise<void> {
  const { history, client } = load;
  const id = history.id();
  const puts = [...staged].map(([key, { digest }]) => [key, digest] as const);
  await history.ask(
    life,
    {
      ...{ id, kind: "open commit", text: `finish ${id} of ${session}`, isLong: true },
      leads: ({ before, after }) => isSame(after.tree, changed(before.tree, puts)),
    },
    {
      call: () =>
        client.until(() =>
          client.control("POST", `${life.path}/sessions/${session}/finish`, { message: id }),
        ),
      told: ended,
    },
  );
}

function ended(answer: Answer): Told {
  if (isAway(answer) || answer.status === 202) return { kind: "unknown" };
  if (answer.status !== 200) throw unexpected(answer);
  return { kind: "wrote", version: JSON.parse(answer.text).commit };
}

async function abort({ client }: Load, { life, session }: OpenCommit): Promise<void> {
  const aborted = await client.until(() => client.control("DELETE", `${life.path}/sessions/${session}`));
  if (aborted.status !== 204) throw unexpected(aborted);
}
