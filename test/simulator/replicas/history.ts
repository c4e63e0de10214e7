import type { Answer } from "../history/model.ts";
import { type Plan, type PlannedStep, planOf, shrunk } from "../history/plan.ts";
import type { State } from "../history/states.ts";
import { Random } from "../platform/random.ts";
import type { Change, Version } from "./branch.ts";
import { ALL_GUARDS, type Guards, type Reader } from "./guards.ts";
import { LEASE_MS } from "./messages.ts";
import { BUCKET, Stage, told } from "./stage.ts";

const KEYS = ["a", "b", "c"];
const CLIENTS = 4;
/** Of each client. */
const STEPS = 18;
/** What a client waits at most between two steps; milliseconds. */
const THINKS_MS = 1_200;
/** How many smaller histories are tried for one in which something is wrong. */
const BUDGET = 400;

const WEIGHTS: Readonly<Record<string, number>> = {
  "read at a replica": 40,
  ...{ read: 6, list: 3, feed: 3, fork: 3, tag: 3, export: 3 },
  ...{ put: 8, "put two": 3, "put if": 4, delete: 2, erase: 2, create: 3, destroy: 1 },
  ...{ "end branch": 2, "end replica": 3, "cut off": 3, "clock back": 1, "clock forward": 1, restore: 1 },
};

/** A step of a history, and what it does on the way. `next`: the client goes on. */
type Kind = (step: { stage: Stage; random: Random; id: string; next: () => void }) => void;

const SHOWN: Readonly<Record<string, { reader: Reader; as: "version" | "tree" }>> = {
  list: { reader: "listings", as: "tree" },
  feed: { reader: "feed", as: "version" },
  fork: { reader: "forks", as: "tree" },
  tag: { reader: "tags", as: "version" },
  export: { reader: "exports", as: "version" },
};

const KINDS: Readonly<Record<string, Kind>> = {
  "read at a replica": ({ stage, random, id, next }) => {
    const key = random.pick(KEYS);
    const site = random.pick(stage.sites);
    stage.ask(
      { id, text: `${id}: ${key} at ${site.name}` },
      { ask: (answer) => stage.reached(site).read(key, (value) => answer(sawValue(key, value))), done: next },
    );
  },

  read: ({ stage, random, id, next }) => {
    const key = random.pick(KEYS);
    stage.ask(
      { id, text: `${id}: ${key}` },
      {
        ask: (answer) =>
          stage.branch.show("reads", ({ tree, generation }) =>
            answer(sawValue(key, told(tree, generation, key))),
          ),
        done: next,
      },
    );
  },

  ...Object.fromEntries(
    Object.entries(SHOWN).map(([name, { reader, as }]): [string, Kind] => [
      name,
      ({ stage, id, next }) =>
        stage.ask(
          { id, text: id },
          {
            ask: (answer) =>
              stage.branch.show(reader, (version) =>
                answer(as === "tree" ? sawTree(version) : sawVersion(version)),
              ),
            done: next,
          },
        ),
    ]),
  ),

  put: (step) =>
    change(step, ({ tree, generation }, random) =>
      generation === null ? null : putOf(tree, [random.pick(KEYS)], step.id),
    ),
  "put two": (step) =>
    change(step, ({ tree, generation }) =>
      generation === null ? null : putOf(tree, KEYS.slice(1), step.id),
    ),
  delete: (step) =>
    change(step, ({ tree, generation }, random) =>
      generation === null ? null : without(tree, random.pick(KEYS)),
    ),
  erase: (step) =>
    change(
      step,
      ({ tree, generation }, random) => (generation === null ? null : without(tree, random.pick(KEYS))),
      { isCommit: false },
    ),
  create: (step) =>
    change(step, ({ generation }) => (generation === null ? { tree: new Map(), keys: "all" } : null)),
  destroy: (step) =>
    change(step, ({ generation }) =>
      generation === null ? null : { tree: new Map(), keys: "all", isGone: true },
    ),

  /** Puts if a key has what the client was told last. */
  "put if": ({ stage, random, id, next }) => {
    const key = random.pick(KEYS);
    const site = random.pick(stage.sites);
    let seen: string | null | undefined;
    stage.ask(
      { id: `${id} reads`, text: `${id} reads: ${key} at ${site.name}` },
      {
        ask: (answer) =>
          stage.reached(site).read(key, (value) => {
            seen = value;
            answer(sawValue(key, value));
          }),
        done: () => {
          if (seen === undefined) next();
          else {
            const expected = seen;
            change({ stage, random, id, next }, ({ tree, generation }) =>
              generation !== null && told(tree, generation, key) === expected ? putOf(tree, [key], id) : null,
            );
          }
        },
      },
    );
  },

  "end branch": mishap(({ stage }) => stage.endBranch()),
  "end replica": mishap(({ stage, random }) => stage.endReplica(random.pick(stage.sites))),
  "cut off": mishap(({ stage, random }) => stage.cutOff(random.pick(stage.sites))),
  "clock back": mishap(({ stage, random }) => stage.setClockBack(random.pick(stage.sites))),
  "clock forward": mishap(({ stage }) => stage.setClockForward()),
  restore: ({ stage, id, next }) => {
    stage.ask(
      { id, text: id, leads: () => true },
      { ask: (answer) => stage.restore(id, () => answer({ kind: "made", commit: id })), done: next },
    );
  },
};

const MISHAPS = new Set(["end branch", "end replica", "cut off", "clock back", "clock forward", "restore"]);

function mishap(happen: (step: { stage: Stage; random: Random }) => void): Kind {
  return ({ stage, random, next }) => {
    happen({ stage, random });
    next();
  };
}

/** What a change makes of a tree. */
interface Made {
  readonly tree: Version["tree"];
  readonly keys: Change["keys"];
  readonly isGone?: boolean;
}

function change(
  { stage, random, id, next }: Parameters<Kind>[0],
  make: (version: Pick<Version, "tree" | "generation">, random: Random) => Made | null,
  { isCommit = true } = {},
): void {
  const seed = random.below(2 ** 31);
  const makeOf = (version: Pick<Version, "tree" | "generation">) => make(version, new Random(seed));
  const leads = ({ before, after }: { before: State; after: State }) => {
    const made = makeOf(before);
    return (
      made !== null &&
      isSameTree(made.tree, after.tree) &&
      (after.generation === null) === (made.isGone ?? false)
    );
  };
  stage.ask(
    { id, text: id, leads },
    {
      ask: (answer) =>
        stage.branch.change(
          (newest) => {
            const made = makeOf(newest);
            if (!made) return null;
            const { tree, keys, isGone } = made;
            const { generation, seq } = newest;
            if (isGone) return { id, tree, keys, generation: null, seq };
            // The next generation has numbers from the beginning.
            if (generation === null) return { id, tree, keys, generation: 1, seq: 1 };
            return { id, tree, keys, generation, seq: isCommit ? seq + 1 : seq };
          },
          (made) =>
            answer(
              made
                ? { kind: "made", commit: id }
                : {
                    kind: "saw",
                    what: "that there is nothing to be done",
                    of: (state) => makeOf(state) === null,
                  },
            ),
        ),
      done: next,
    },
  );
}

function putOf(tree: Version["tree"], keys: readonly string[], value: string): Made {
  return { tree: new Map([...tree, ...keys.map((key) => [key, value] as const)]), keys };
}

function without(tree: Version["tree"], key: string): Made | null {
  return tree.has(key) ? { tree: new Map([...tree].filter(([one]) => one !== key)), keys: [key] } : null;
}

function isSameTree(one: Version["tree"], other: Version["tree"]): boolean {
  return one.size === other.size && [...one].every(([key, value]) => other.get(key) === value);
}

function sawValue(key: string, value: string | null): Answer {
  return {
    kind: "saw",
    what: String(value),
    of: ({ tree, generation }) => told(tree, generation, key) === value,
  };
}

function sawTree({ tree, generation }: Version): Answer {
  return {
    kind: "saw",
    what: JSON.stringify([...tree]),
    of: (state) => isSameTree(state.tree, tree) && (state.generation === null) === (generation === null),
  };
}

function sawVersion({ id }: Version): Answer {
  return { kind: "saw", what: id, of: ({ commit }) => (commit ?? "") === id };
}

/** The plan of a seed. */
export function replicaPlan(seed: number): Plan {
  const plan = planOf(seed, { clients: CLIENTS, steps: STEPS, weights: WEIGHTS });
  // Without a branch there is nothing to read.
  return {
    ...plan,
    steps: plan.steps.map((step) => (step.number === 0 ? { ...step, kind: "create" } : step)),
  };
}

/** Runs a history of a branch with replicas. */
export async function runReplicas(
  { schedule, steps, isCalm = false }: Plan,
  guards: Guards = ALL_GUARDS,
): Promise<Stage> {
  const stage = new Stage({ seed: schedule, isCalm, guards });
  let running = 0;
  const stepsOf = (client: number) => steps.filter((step) => step.client === client);
  for (let client = 0; client < CLIENTS; client++) {
    running++;
    takeAll(stage, stepsOf(client), { isCalm, done: () => running-- });
  }
  await stage.world.run({ until: Number.POSITIVE_INFINITY, stop: () => running === 0 });
  stage.calm();
  await stage.world.run({ until: stage.world.now + 3 * LEASE_MS });
  // In the end everybody sees the same.
  let left = 0;
  for (const [number, site] of [...stage.sites, undefined].entries()) {
    for (const key of KEYS) {
      left++;
      const id = `last ${number} ${key}`;
      const read = (answer: (answer: Answer) => void) =>
        site
          ? site.replica.read(key, (value) => answer(sawValue(key, value)))
          : stage.branch.show("reads", ({ tree, generation }) =>
              answer(sawValue(key, told(tree, generation, key))),
            );
      stage.ask({ id, text: id }, { ask: read, done: () => left-- });
    }
  }
  await stage.world.run({ until: Number.POSITIVE_INFINITY, stop: () => left === 0 });
  await stage.world.run({ until: stage.world.now + LEASE_MS });
  return stage;
}

/** One step after the other. */
function takeAll(
  stage: Stage,
  [step, ...later]: readonly PlannedStep[],
  { isCalm, done }: { isCalm: boolean; done: () => void },
): void {
  if (!step) {
    done();
    return;
  }
  const random = new Random(step.seed);
  const next = () => takeAll(stage, later, { isCalm, done });
  const kind = KINDS[step.kind];
  if (!kind) throw new Error(`there is no step ${step.kind}`);
  stage.world.after(random.next() * THINKS_MS, () => {
    if ((isCalm || stage.isDeaf) && MISHAPS.has(step.kind)) return next();
    stage.count(`step ${step.kind}`);
    kind({ stage, random, id: `${step.kind} ${step.number}`, next });
  });
}

/** What is wrong with a history; empty: nothing is. */
async function replicaFaults(plan: Plan, guards?: Guards): Promise<readonly string[]> {
  return (await runReplicas(plan, guards)).faults();
}

/** The history of a seed in which something is wrong, made as small as it can be, for people; undefined: nothing is wrong. */
export async function reportOfReplicas(seed: number, guards?: Guards): Promise<string | undefined> {
  const plan = replicaPlan(seed);
  if ((await replicaFaults(plan, guards)).length === 0) return undefined;
  const fails = async (smaller: Plan) => (await replicaFaults(smaller, guards)).length > 0;
  const least = await shrunk(plan, { fails, budget: BUDGET });
  const stage = await runReplicas(least, guards);
  const lines = stage.taken.flatMap(({ text, begun, ended, answer }) => [
    { at: begun, line: text },
    {
      at: ended,
      line: `${text} is answered ${answer.kind === "made" ? answer.commit : answer.kind === "saw" ? answer.what : ""}`,
    },
  ]);
  return [
    `history ${seed}, ${least.steps.length} of ${plan.steps.length} steps, schedule ${least.schedule}${least.isCalm ? ", calm" : ""}:`,
    ...lines
      .filter(({ at }) => Number.isFinite(at))
      .sort((one, other) => one.at - other.at)
      .map(({ at, line }) => `${String(at).padStart(4)}  ${line}`),
    ...stage.faults().map((fault) => `wrong: ${fault.replace(`${BUCKET}: `, "")}`),
  ].join("\n  ");
}
