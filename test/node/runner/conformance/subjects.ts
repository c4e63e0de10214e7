import { containerExecutor } from "../../../../runner/executors/container/container-executor.ts";
import { openEngine } from "../../../../runner/executors/container/engine/engine.ts";
import { findBubblewrap, findUnshare } from "../../../../runner/executors/detect.ts";
import type { Executor } from "../../../../runner/executors/executor.ts";
import { readRootEntries } from "../../../../runner/executors/process/machine.ts";
import { processExecutor } from "../../../../runner/executors/process/process.ts";
import { findTool } from "../../../../runner/lib/system-calls.ts";
import type { Limits } from "../../../../runner/limits/limits.ts";
import { findEngines, type TestEngine } from "../../../support/engines.ts";
import { REST } from "../../../support/suite.ts";
import type { TestImage } from "../../../support/test-images.ts";

/** An executor that the conformance suite is run against. */
export interface Subject {
  /** The tool or the engine, which begins the name of each of its tests. */
  readonly name: string;
  /** This machine lacks what it needs: its tests are skipped, by name. */
  readonly absent: boolean;
  /** What commands are to the machine. */
  readonly kind: "process" | "container";
  /** The options of its tests: an engine is more than the README asks for. */
  readonly options: { tags?: string[] };
  /** The engine of containers, if it is here. */
  readonly engine?: TestEngine;
  /** The PATH on which commands find their tools. */
  readonly path: string;
  /** What to give as the image. */
  image(image: TestImage): Promise<string>;
  /** `dataDir` is there, and has no links on the way. */
  open(dataDir: string, terms?: SubjectTerms): Promise<Executor>;
}

export interface SubjectTerms {
  readonly limits?: Limits;
  /** What commands are not to see of this machine, whether it is there or not. */
  readonly hidden?: readonly string[];
  /** Devices that processes see besides the usual ones. */
  readonly devices?: readonly string[];
  /** Of containers. */
  readonly network?: string;
}

/** The names of all of them, whether they are here or not. */
export const SUBJECT_NAMES = ["bubblewrap", "unshare", "docker", "podman"] as const;
export type SubjectName = (typeof SUBJECT_NAMES)[number];

const PROCESS_TOOLS = { bubblewrap: "bwrap", unshare: "setpriv" };

export async function findSubject(name: SubjectName): Promise<Subject> {
  if (name === "bubblewrap" || name === "unshare") return processSubject(name);
  const found = (await findEngines()).find((engine) => engine.name === name);
  return containerSubject(name, found?.engine);
}

export function findSubjects(): Promise<Subject[]> {
  return Promise.all(SUBJECT_NAMES.map(findSubject));
}

async function processSubject(name: keyof typeof PROCESS_TOOLS): Promise<Subject> {
  const find = name === "bubblewrap" ? findBubblewrap : findUnshare;
  return {
    name,
    kind: "process",
    options: {},
    absent: (await findTool(PROCESS_TOOLS[name])) === undefined,
    path: process.env.PATH ?? "/usr/bin:/bin",
    image: async () => "any",
    async open(dataDir, { hidden = [], devices = [] } = {}) {
      const jail = await find({ root: await readRootEntries(), dataDir, hidden, devices });
      if (typeof jail === "string") throw new Error(jail);
      return processExecutor(jail);
    },
  };
}

function containerSubject(name: string, engine: TestEngine | undefined): Subject {
  const here = (): TestEngine => {
    if (engine === undefined) throw new Error(`there is no ${name} here`);
    return engine;
  };
  return {
    name,
    kind: "container",
    options: REST,
    absent: engine === undefined,
    ...(engine !== undefined && { engine }),
    path: "/bin",
    image: (image) => here().image(image),
    open: async (dataDir, { limits = {}, network } = {}) => {
      const engine = await openEngine(here().socket);
      return containerExecutor({ engine, dataDir, node: "conformance", limits, network });
    },
  };
}
