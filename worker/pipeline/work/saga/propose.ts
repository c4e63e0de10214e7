/*
 * How it is held that pipelines never go in a circle, though each is an object of its own and two may be submitted at
 * the same moment. In brackets: what a step writes down.
 *
 *  1. Propose [proposals, here and in the catalogue]: what the pipeline is to read, for everybody to see. The alarm is
 *     set in the same turn, so that a proposal of a call that died is taken back.
 *  2. Check: the whole graph, what others propose included.
 *  3. Begin [pipeline.state]: the creation goes on, or the update begins. If there is a circle: a creation is undone,
 *     an update changes nothing, and the version of before runs on.
 *  4. Tell the catalogue [its row of the pipeline]: now the pipeline's own row says the same.
 *  5. Take back [proposals, in the catalogue and here].
 *
 * Who wins:
 *  - Two that make a circle together: each writes before it reads, so at least one of them sees the other and is
 *    refused. If both see each other, both are; whoever asks again is alone.
 *  - A version that drops an edge while another pipeline is checked: what is read now counts until the catalogue was
 *    told (4), so the check may refuse what would be good a moment later, never the other way round.
 *  - Two updates of one pipeline at once: what one was checked for holds whatever the other has done meanwhile, as the
 *    proposal has all of its inputs. An update that seemed to add nothing is asked again if it would by now.
 *  - A crash: a creation begins again with 1. Of an update nothing is left but the proposal: nobody holds it any more.
 */

import { type BranchAddress, bucketName } from "../../../../protocol/names.ts";
import type { Refused } from "../../../branch/contract/answers.ts";
import { flowsOf, outputsOf, wayBack } from "../../../core/circles.ts";
import type { Place } from "../../../core/places.ts";
import { WATCH_MS } from "../../../objects/loop.ts";
import type { PipelineContext } from "../../context.ts";
import type { Circle } from "../../contract.ts";
import type { Ledger } from "../../ledger/ledger.ts";
import { type Definition, errorsOf } from "../../lifecycle/definition.ts";
import type { StoredState } from "../../lifecycle/pipeline-store.ts";

/** What a pipeline is to read and to write. */
export interface Edges {
  readonly name: string;
  readonly uid: string;
  readonly inputs: readonly BranchAddress[];
  readonly output: BranchAddress;
  /** Whether it writes to its errors branch, too. */
  readonly errors: boolean;
}

/**
 * Writes the edges of a pipeline down, then looks for a circle with those of all others. Whoever calls this holds the
 * proposal (`held`) until it is settled. Throws if the catalogue can't be reached.
 */
export async function propose(
  context: PipelineContext,
  id: string,
  edges: Edges,
): Promise<Circle | undefined> {
  const { ledger, peers } = context;
  const { name, uid, output, errors } = edges;
  const inputs = edges.inputs.map(({ repo, branch }) => ({ repo, branch }));
  ledger.transaction(() => {
    ledger.proposals.add(id);
    ledger.wake("state", peers.now() + WATCH_MS);
  });
  await peers.catalogue.proposals.add({ pipeline: name, id, uid, inputs, output, errors });
  return await circleOf(context, { ...edges, inputs });
}

/** The first circle that the pipeline would be part of. */
async function circleOf(
  { peers }: PipelineContext,
  { name, inputs, output, errors }: Edges,
): Promise<Circle | undefined> {
  const graph = await peers.catalogue.proposals.graph();
  const others = graph
    .filter(({ pipeline }) => pipeline !== name)
    .flatMap((flow) => flowsOf({ ...flow, name: flow.pipeline }));
  for (const made of outputsOf({ name, output, errors })) {
    for (const input of inputs) {
      const way = wayBack(others, { from: bucketName(input), to: bucketName(made) });
      if (!way) continue;
      const isProposed = way.some((flow) => flow.isProposed);
      return { input, made, through: way.map(({ pipeline }) => pipeline), isProposed };
    }
  }
  return undefined;
}

/** Takes back what nobody holds any more. For a pipeline that rests, so that the catalogue says what it reads. */
export async function takeBackProposals({ ledger, peers, memory }: PipelineContext): Promise<void> {
  const ids = ledger.proposals.all().filter((id) => !memory.held.has(id));
  const name = ledger.pipeline.name();
  if (ids.length === 0 || name === undefined) return;
  await peers.catalogue.proposals.remove(name, ids);
  ledger.transaction(() => ledger.proposals.remove(ids));
}

/** Whether these inputs would add an edge to what the pipeline reads. */
export function addsEdges({ sources }: Definition, inputs: readonly BranchAddress[]): boolean {
  const read = new Set(sources.map(bucketName));
  return inputs.some((input) => !read.has(bucketName(input)));
}

/*
 * How a pipeline has its errors branch, which work/finish/bad-datums.ts writes to. In brackets: what is written down.
 *
 *  1. Begin [errors_claim]: before the branch is asked, so that a claim that comes to nothing is given back.
 *  2. Claim: the branch grants it, or is there already and somebody else's. It makes itself if it is not there.
 *  3. Settle [errors_claim]: with the specification that wants the branch, in one transaction. From here on the pipeline
 *     has it until it is deleted, also when a later specification lets failed datums fail their jobs again: the next job
 *     that succeeds has none, and empties the branch.
 *
 * A crash, or a refusal, between 1 and 3: a creation goes on with 2, or is undone like a deletion. Of an update the claim
 * is taken back once no call holds it. If another update claims the branch just then, its claim or this end of it comes
 * last: whoever writes next claims it again (work/finish/commit.ts). If the pipeline is deleted meanwhile, the deletion gives
 * the branch back, and so does who claims it: the claim may come to the branch last.
 */

type Owner = Pick<Definition, "name" | "uid">;

/** Where the branches are to live that a pipeline makes: where its first input does. */
export async function placeOfOutputs(
  { catalogue }: Pick<PipelineContext["peers"], "catalogue">,
  { spec }: Pick<Definition, "spec">,
): Promise<Place | null> {
  const [first] = spec.inputs;
  if (!first) return null;
  return await catalogue.branches.placeOf({ repo: first.repo.name, branch: first.branch });
}

/**
 * Steps 1 and 2. Refused: the branch is somebody else's, or the pipeline is being deleted (`gone`), and nothing is left of the
 * claim.
 */
export async function claimErrors(
  context: PipelineContext,
  { name, uid, ...reads }: Owner & Pick<Definition, "spec">,
): Promise<{ readonly ok: true } | Refused<"errors-exist" | "catalogue-unavailable" | "gone">> {
  const { ledger, peers } = context;
  const { errorsClaim } = ledger;
  if (errorsClaim.get(uid)?.settled) return { ok: true };
  const place = await placeOfOutputs(peers, reads);
  if (!whileStands(ledger, uid, () => errorsClaim.begin(uid))) return { ok: false, reason: "gone" };
  const branch = errorsOf({ name });
  const claimed = await peers.branch(branch, place).output.claim({ pipeline: name, uid, place });
  if (!claimed.ok && claimed.reason === "catalogue-unavailable") {
    // The branch is the pipeline's all the same, and only the catalogue has not heard of it.
    await releaseLate(context, { uid, branch });
    return { ok: false, reason: "catalogue-unavailable" };
  }
  const keep = () => (claimed.ok ? errorsClaim.take(uid, claimed.epoch) : errorsClaim.remove(uid));
  if (!whileStands(ledger, uid, keep)) {
    if (claimed.ok) await releaseLate(context, { uid, branch });
    return { ok: false, reason: "gone" };
  }
  return claimed.ok ? { ok: true } : { ok: false, reason: "errors-exist" };
}

/** Does something in one transaction, unless this life of the pipeline is to end or has ended. Returns whether it did. */
function whileStands(ledger: Ledger, uid: string, work: () => void): boolean {
  return ledger.transaction(() => {
    if (isEnding(ledger.pipeline.row()?.state) || ledger.pipeline.definition()?.uid !== uid) return false;
    work();
    return true;
  });
}

/**
 * Gives back a branch that was granted when the pipeline was already being deleted: the deletion may have come to the branch
 * before the claim. Does nothing if it comes after, or if nobody deletes the pipeline.
 */
async function releaseLate(
  { ledger, peers }: PipelineContext,
  { uid, branch }: { readonly uid: string; readonly branch: BranchAddress },
): Promise<void> {
  const isLater = ledger.pipeline.uid() !== uid;
  if (!isLater && !isEnding(ledger.pipeline.row()?.state)) return;
  // Of an earlier life nothing can be here but the empty branch that the claim made.
  const destroy = isLater || ledger.pipeline.row()?.keepOutput === 0;
  await peers.branch(branch).output.release({ uid, destroy });
}

function isEnding(state: StoredState | undefined): boolean {
  return state === undefined || state === "deleting" || state === "purging" || state === "deleted";
}

/** Gives the branch up; does nothing if the pipeline has none. */
export async function releaseErrors(
  { ledger, peers }: PipelineContext,
  { name, uid }: Owner,
  { destroy }: { destroy: boolean },
): Promise<void> {
  if (!ledger.errorsClaim.get(uid)) return;
  await peers.branch(errorsOf({ name })).output.release({ uid, destroy });
}

/** Gives back what an update claimed that came to nothing. For a pipeline that rests. */
export async function takeBackErrors(context: PipelineContext): Promise<void> {
  const { ledger, memory } = context;
  const definition = ledger.pipeline.definition();
  if (!definition || memory.held.size > 0 || ledger.errorsClaim.get(definition.uid)?.settled !== false)
    return;
  await releaseErrors(context, definition, { destroy: true });
  ledger.transaction(() => {
    if (ledger.errorsClaim.get(definition.uid)?.settled === false) ledger.errorsClaim.remove(definition.uid);
  });
}
