import type { Change } from "../model.ts";
import { UNKNOWN } from "../model.ts";
import type { Asked, Kind, Stage, Turn } from "../stage.ts";
import type { State } from "../states.ts";
import { refusal } from "./answers.ts";
import { finish } from "./open-commits.ts";

export const REVERT_KINDS = { revert: { weight: 3, take: revert } } satisfies Record<string, Kind>;

/** Back to an earlier commit, whose tree HEAD has then, but for what was erased. */
async function revert(stage: Stage, turn: Turn): Promise<void> {
  const { id, random, bucket } = turn;
  const log = await stage.branch(bucket).history.list({ limit: 100 });
  if (!log.ok || log.commits.length === 0) return;
  const commit = random.pick(log.commits).id;
  const target = stage.observers.get(bucket)?.states.find((state) => state.commit === commit);
  const isThere = ({ tree }: State) => target !== undefined && stage.isButErased(target.tree, tree);
  const asked: Asked = {
    id,
    bucket,
    text: `revert ${id} to ${commit}`,
    leads: ({ after }: Change) => isThere(after),
  };
  const answer = await stage.ask(
    asked,
    () => stage.branch(bucket).openCommits.revert({ commit, annotation: { message: id } }),
    // The commit comes later, if it comes.
    (begun) => (begun.ok ? UNKNOWN : refusal(begun)),
  );
  if (!answer?.ok || random.chance(0.3)) return;
  await finish(stage, turn, { openCommit: answer.openCommit, id: `${id}.end` });
}
