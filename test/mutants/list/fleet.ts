import { type Invariant, inNode, inWorker } from "../mutant.ts";

/** A datum finds a worker though workers rest, whatever wake-up is lost. */
export const WAKE_UPS: Invariant = {
  id: "14b",
  mutants: [
    {
      name: "A worker rests by what a heartbeat was answered that began before a wake-up",
      file: "runner/worker/idle-pipelines.ts",
      text: "each.idle && this.#lastWakeUpOf(each.pipeline) <= wakeUps",
      replacement: "each.idle",
      tests: [inNode("runner/idle-pipelines", "began before a wake-up")],
    },
    {
      name: "A worker rests though it was woken since it asked",
      file: "runner/worker/idle-pipelines.ts",
      text: "this.#idle.has(pipeline) && this.#lastWakeUpOf(pipeline) <= wakeUps;",
      replacement: "this.#idle.has(pipeline);",
      tests: [inNode("runner/idle-pipelines", "woken since it asked")],
    },
    {
      name: "All workers of a node rest though a heartbeat says that there is a job",
      file: "runner/worker/idle-pipelines.ts",
      text: "      else if (!this.#idle.has(pipeline)) this.#end(pipeline, 1);\n",
      replacement: "",
      tests: [inNode("runner/idle-pipelines", "may have been lost")],
    },
    {
      name: "A worker that has found something wakes no other",
      file: "runner/worker/worker.ts",
      text: "    idle.found(pipeline);\n",
      replacement: "",
      tests: [inNode("runner/resting-workers")],
    },
    {
      name: "Workers rest though no heartbeat is answered, and nobody can tell the catalogue of a job",
      file: "runner/agent/agent.ts",
      text: "        idle.forget();\n",
      replacement: "",
      tests: [inNode("runner/quiet-node", "no heartbeat is answered")],
    },
    {
      name: "A heartbeat that a wake-up brings is answered by what was known before it",
      file: "worker/fleet/fleet.ts",
      text: "  #wake(pipeline?: string): void {\n    this.#assignments.forget();\n",
      replacement: "  #wake(pipeline?: string): void {\n",
      tests: [inWorker("api/nodes", "have no job")],
    },
    {
      name: "What the catalogue was asked before a wake-up is the answer to who asks after it",
      file: "worker/fleet/known-assignments.ts",
      text: "    this.#last = undefined;\n  }\n\n  /** Of a node",
      replacement: "  }\n\n  /** Of a node",
      tests: [inWorker("fleet/known-assignments", "after a wake-up")],
    },
    {
      name: "Nobody is woken for the job of a pipeline that had none",
      file: "worker/pipeline/work/catalogue.ts",
      text: "    await peers.fleet.wakeWorkers(definition.name);\n",
      replacement: "    await Promise.resolve();\n",
      tests: [inWorker("api/nodes", "have no job")],
    },
    {
      name: "Workers that nobody would wake are told to rest",
      file: "worker/fleet/door.ts",
      text: "{ now: Date.now(), marksIdle: isWoken }",
      replacement: "{ now: Date.now(), marksIdle: true }",
      tests: [inWorker("api/nodes", "hears of no pipeline")],
    },
    {
      name: "A lease call that has gone, or leaves something, wakes no other",
      file: "worker/pipeline/calls/leases.ts",
      text: "    if (isWoken) memory.queued.wakeOne();\n",
      replacement: "",
      tests: [inWorker("pipeline/leases", "that wait together")],
    },
    {
      name: "All lease calls wait for one whose caller can't be asked",
      file: "worker/pipeline/calls/leases.ts",
      text: "await within(PRESENT_WITHIN_MS, isPresent(request))",
      replacement: "await isPresent(request)",
      tests: [inWorker("pipeline/leases", "wake the next one")],
    },
  ],
};

/** A node that lives is not forgotten, and one that has gone does not count for longer than it said. */
export const NODES: Invariant = {
  id: "14c",
  mutants: [
    {
      name: "A node whose socket closed counts as gone though it was heard of since",
      file: "worker/catalogue/nodes.ts",
      text: " AND seenAt < ${closedAt}`",
      replacement: "`",
      tests: [inWorker("fleet/fleet", "heard of since")],
    },
    {
      name: "A node counts as gone when another socket took the place of its first",
      file: "worker/fleet/fleet.ts",
      text: "    if (this.#sockets(node).some((other) => other !== socket)) return;\n",
      replacement: "",
      tests: [inWorker("fleet/fleet", "took the place")],
    },
    {
      name: "A node that came back counts as gone",
      file: "worker/fleet/ledger.ts",
      text: "ON CONFLICT DO UPDATE SET closedAt = NULL WHERE closedAt IS NOT NULL",
      replacement: "ON CONFLICT DO NOTHING",
      tests: [inWorker("fleet/fleet", "came back")],
    },
    {
      name: "An object that comes up does not miss the sockets that broke with it",
      file: "worker/fleet/fleet.ts",
      text: "    if (ledger.exists) this.#missSockets();\n",
      replacement: "",
      tests: [inWorker("fleet/fleet", "without sockets of nodes")],
    },
    {
      name: "Nodes that are gone are forgotten before the catalogue was told",
      file: "worker/fleet/fleet.ts",
      text: "    await openCatalogue(this.env.DB).nodes.disquiet(gone);\n",
      replacement: "    void openCatalogue(this.env.DB).nodes.disquiet(gone).catch(() => {});\n",
      tests: [inWorker("fleet/fleet", "waits for the catalogue")],
    },
    {
      name: "A node that was quiet counts as alive although it said that it is quiet no more",
      file: "worker/catalogue/nodes.ts",
      text: "quietUntil = excluded.quietUntil\n",
      replacement: "quietUntil = coalesce(excluded.quietUntil, quietUntil)\n",
      tests: [inWorker("catalogue/catalogue", "for as long as any")],
    },
    {
      name: "A clock that was set back lets quiet nodes that are dead count as alive",
      file: "worker/catalogue/nodes.ts",
      text: ", quietUntil = min(quietUntil, ${seenAt + QUIET_TTL_MS})\n",
      replacement: "\n",
      tests: [inWorker("catalogue/catalogue", "clock is set back")],
    },
    {
      name: "A node says that it is quiet while a command runs on it",
      file: "runner/agent/agent.ts",
      text: "listener.isHeard && isIdle(self.work)",
      replacement: "listener.isHeard",
      tests: [inNode("runner/quiet-node", "not quiet while something runs")],
    },
    {
      name: "A node whose socket can't be had again stays quiet",
      file: "runner/agent/wake-up-listener.ts",
      text: "      this.#isHeard = listened;\n",
      replacement: "",
      tests: [inNode("runner/quiet-node", "can't be had again")],
    },
  ],
};
