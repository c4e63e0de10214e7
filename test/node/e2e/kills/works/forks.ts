import { isSame, type State } from "../../../../simulator/history/states.ts";
import { unexpected } from "../client.ts";
import { type Load, REPO, type Work } from "../load.ts";
import { listed } from "./files.ts";

const NAMES = ["one", "two", "three"];
const TAG = "pin";

/** Makes forks, of forks too, and deletes the one that may go; the tag moves. */
export const FORKS: Work = async (load) => {
  await load.oneOf([fork, fork, removeRetiring, tag, readTag, readTag])(load);
};

async function fork(load: Load): Promise<void> {
  load.forking ??= chosen(load);
  await finishFork(load);
}

/** Makes the fork that was begun, if one was. */
export async function finishFork(load: Load): Promise<void> {
  const { client, history, forking } = load;
  if (!forking) return;
  const { branch, from, state } = forking;
  const source = { repo: from.repo, branch: from.branch, commit: state.commit };
  const made = await client.until(() =>
    client.control("POST", `/repos/${REPO}/branches`, { name: branch, from: source }),
  );
  if (made.status !== 201 && made.status !== 409) throw unexpected(made);
  const bucket = `${branch}.${REPO}`;
  // Until all names are there, it answers that it can't just now.
  const there = await client.until(() => client.s3("GET", `/${bucket}?list-type=2`));
  if (there.status !== 200) throw unexpected(there);
  if (!isSame(listed(there.text), state.tree))
    history.faults.push(`${bucket}: a fork of ${from.bucket} at ${state.commit} has other files`);
  await load.addFork(branch, state);
  load.forking = undefined;
  history.count("fork made");
}

function chosen(load: Load): Load["forking"] {
  const isFree = (name: string) =>
    !load.history.lives.has(`${name}.${REPO}`) && load.retiring?.branch !== name;
  const branch = NAMES.find(isFree);
  const from = load.branch();
  const commit = from.newest(8).at(-1);
  const state = commit === undefined ? undefined : from.stateOf(commit);
  return branch !== undefined && state ? { branch, from, state } : undefined;
}

async function removeRetiring(load: Load): Promise<void> {
  const life = load.retiring;
  if (!life) return;
  // Whoever reads it now may find it or not.
  load.history.lives.delete(life.bucket);
  const removed = await load.client.until(() => load.client.s3("DELETE", `/${life.bucket}`));
  if (removed.status !== 204 && removed.status !== 404) throw unexpected(removed);
  load.retiring = undefined;
  load.history.count("fork deleted");
}

async function tag(load: Load): Promise<void> {
  const { client, master } = load;
  const commit = load.oneOf([...master.newest(20), ""]);
  const state = master.stateOf(commit);
  if (!state) return;
  load.tagged.push(state);
  const set = await client.until(() =>
    client.control("PUT", `${master.path}/tags/${TAG}`, { commit, force: true }),
  );
  if (set.status >= 300) throw unexpected(set);
  load.tagged = [state];
  load.history.count("tag moved");
}

/** What the tag shows is a commit that it may name. No other client moves it. */
export async function readTag({ client, history, tagged, master }: Load): Promise<void> {
  const bucket = `${TAG}.${master.bucket}`;
  const found = await client.until(() => client.s3("GET", `/${bucket}?list-type=2`));
  const tree = listed(found.text);
  const fits = (state: State | undefined) =>
    state ? found.status === 200 && isSame(state.tree, tree) : found.status === 404;
  if (!tagged.some(fits))
    history.faults.push(`${bucket}: it shows ${found.status} ${JSON.stringify([...tree])}`);
}

/** A fork that nobody writes to from now on. */
export function retire(load: Load): void {
  const forks = [...load.history.lives.values()].filter((life) => life.repo === REPO && life !== load.master);
  const isWanted = load.retiring === undefined && forks.length === NAMES.length;
  const used = new Set(load.openCommits.map(({ life }) => life));
  const free = forks.filter((life) => !used.has(life) && life !== load.forking?.from);
  if (isWanted && free.length > 0) load.retiring = load.oneOf(free);
}
