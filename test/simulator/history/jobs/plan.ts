import { Random } from "../../platform/random.ts";
import { jumpsOf, type Plan, type PlannedStep } from "../plan.ts";

/** Who does the steps, and so many of them. */
const STEPS = { "writer-1": 11, "writer-2": 11, operator: 12, curator: 11, fleet: 7 } as const;
type Client = keyof typeof STEPS;

/** What each does, and how often beside the others. */
const WRITES = { put: 6, delete: 2, commit: 4, rewrite: 1, "there and back": 2, "delete branch": 1 } as const;
const KINDS = {
  "writer-1": WRITES,
  "writer-2": WRITES,
  operator: {
    ...{
      "update code": 2,
      "update settings": 1,
      "update terms": 2,
      "update inputs": 2,
      "update egress": 2,
      "update container": 1,
      "update skips": 1,
      "update in vain": 1,
      "submit again": 1,
    },
    ...{ "stop pipeline": 2, "start pipeline": 3, "stop job": 2 },
    ...{ "retry job": 3, "run all again": 2, "delete pipeline": 1, "create pipeline": 2 },
  },
  curator: {
    "tag input": 1,
    "tag output": 2,
    "erase input": 1,
    "erase output": 1,
    "keep output": 1,
    "lose upload": 2,
    "fence output": 1,
    "tell again": 1,
    "ask for nothing": 2,
    "read jobs": 2,
    look: 4,
    "plan update": 2,
  },
  fleet: { "kill node": 3, "freeze node": 3, "drain node": 2, "resume node": 3, "node leaves": 2 },
} as const satisfies Record<Client, Record<string, number>>;

export type Kind =
  | keyof typeof WRITES
  | keyof (typeof KINDS)["operator"]
  | keyof (typeof KINDS)["curator"]
  | keyof (typeof KINDS)["fleet"];

/** What nodes do by themselves. */
const WORK = ["run datum", "run merge", "run egress", "report"];
/** All that is done, by its names. */
export const JOB_KINDS: readonly string[] = [...new Set(Object.values(KINDS).flatMap(Object.keys)), ...WORK];
/** Kinds that do much the same, and who takes such steps. */
const GROUPS: Readonly<Record<string, { readonly by: string; readonly kinds: readonly string[] }>> = {
  writes: { by: "writers", kinds: Object.keys(WRITES) },
  updates: {
    by: "operator",
    kinds: [...Object.keys(KINDS.operator).filter((kind) => kind.startsWith("update ")), "submit again"],
  },
  "stops and starts": { by: "operator", kinds: ["stop pipeline", "start pipeline", "stop job"] },
  "runs again": { by: "operator", kinds: ["retry job", "run all again"] },
  "deletions and creations": { by: "operator", kinds: ["delete pipeline", "create pipeline"] },
  history: {
    by: "curator",
    kinds: ["tag input", "tag output", "erase input", "erase output", "keep output"],
  },
  outputs: { by: "curator", kinds: ["lose upload", "fence output", "tell again"] },
  reads: { by: "curator", kinds: ["ask for nothing", "read jobs", "look", "plan update"] },
  nodes: { by: "fleet", kinds: Object.keys(KINDS.fleet) },
  work: { by: "nodes", kinds: WORK },
};
/** The group of each kind. */
export const JOB_GROUP_OF: ReadonlyMap<string, string> = new Map(
  Object.entries(GROUPS).flatMap(([group, { kinds }]) => kinds.map((kind) => [kind, group])),
);
/** Groups of which steps may run at the same time: writers and nodes are several, and each of the others takes one step at a time. */
export const JOB_GROUP_PAIRS: readonly (readonly [string, string])[] = Object.entries(GROUPS).flatMap(
  ([one, { by }], at, all) =>
    all
      .slice(at)
      .filter(([, other]) => other.by !== by || by === "writers" || by === "nodes")
      .map(([other]): [string, string] => [one, other]),
);
/** What goes wrong in histories of pipelines beside what does in others. */
export const JOB_FAULTS = ["gateway ends", "object ends after a write"];

export interface JobsStep extends PlannedStep {
  readonly kind: Kind;
}

/** What the pipelines of a history are; one that follows another comes after it. */
export type Shape = "one" | "cross" | "chain";

export interface JobsPlan extends Plan {
  readonly steps: readonly JobsStep[];
  readonly shape: Shape;
  /** So many jobs of each pipeline are listed; null: more than it has. */
  readonly keptJobs: number | null;
  /** Pages end after a few rows, and so do other limits. */
  readonly isSmall: boolean;
  /** Of what the pipelines read, and of the nodes. */
  readonly seed: number;
}

/** A history, as its seed has it. */
export function planJobs(seed: number): JobsPlan {
  const random = new Random(seed ^ 0x5f3759df);
  const shape = random.pick(["one", "one", "cross", "chain"] as const);
  const kinds = Object.entries(STEPS).flatMap(([client, count], index) =>
    Array.from({ length: count }, () => ({
      client: index,
      kind: weighed(random, KINDS[client as Client]),
    })),
  );
  const steps = kinds.map((step, number) => ({ number, ...step, seed: random.below(2 ** 31) }));
  const keptJobs = random.chance(0.3) ? 2 + random.below(4) : null;
  const isSmall = random.chance(0.75);
  return { shape, keptJobs, isSmall, seed, schedule: seed, jumps: jumpsOf(seed, steps.length), steps };
}

function weighed(random: Random, weights: Readonly<Partial<Record<Kind, number>>>): Kind {
  const entries = Object.entries(weights) as [Kind, number][];
  return random.pick(entries.flatMap(([kind, weight]) => Array.from({ length: weight }, () => kind)));
}
