import { describe, expect, it } from "vitest";
import { fairShares } from "../../../protocol/runner.ts";
import { PipelineSpec } from "../../../protocol/spec.ts";
import { assignWorkers, workerCount } from "../../../worker/core/parallelism.ts";

/** Nodes that run containers, by name. */
const named = (...names: string[]) => names.map((name) => ({ name, executor: "docker" }));

describe("worker counts", () => {
  it.each([
    [{ strategy: "CONSTANT", constant: 7 }, 0, 7],
    [{ strategy: "CONSTANT", constant: 7 }, 100, 7],
    [{ strategy: "COEFFICIENT", coefficient: 0.5 }, 10, 5],
    [{ strategy: "COEFFICIENT", coefficient: 2 }, 10, 20],
    [{ strategy: "COEFFICIENT", coefficient: 1.5 }, 3, 4],
    [{ strategy: "COEFFICIENT", coefficient: 0.3 }, 1, 1],
    [{ strategy: "COEFFICIENT", coefficient: 3 }, 0, 1],
    [{ strategy: "COEFFICIENT", coefficient: 0.001 }, 10, 1],
    [{ strategy: "COEFFICIENT", coefficient: 0.29 }, 100, 29],
    [{ strategy: "COEFFICIENT", coefficient: 2.999 }, 1, 2],
  ] as const)("of %j on %i nodes are %i", (parallelism, nodes, expected) => {
    const live = named(...Array.from({ length: nodes }, (_, n) => `n${n}`));
    expect(workerCount({ parallelism }, live)).toBe(expected);
  });

  it("of a coefficient count no node that is being drained, and none that is unable to run the pipeline", () => {
    const parallelism = { strategy: "COEFFICIENT" as const, coefficient: 1 };
    const drained = { name: "n3", executor: "docker", draining: true };
    const bare = { name: "n4", executor: "process" };
    const nodes = [...named("n1", "n2"), drained, bare];
    const boxed = { name: "boxed", parallelism, container: "required" as const };
    const any = { name: "any", parallelism };
    expect([workerCount(boxed, nodes), workerCount(any, nodes)]).toEqual([2, 3]);
    const on = (...pipelines: string[]) => pipelines.map((pipeline) => ({ pipeline, count: 1 }));
    expect(Object.fromEntries(assignWorkers({ pipelines: [boxed, any], nodes }))).toEqual({
      ...{ n1: on("boxed", "any"), n2: on("boxed", "any"), n4: on("any") },
    });
    expect(workerCount(boxed, [drained, bare])).toBe(1);
    expect([...assignWorkers({ pipelines: [boxed, any], nodes: [drained] })]).toEqual([]);
  });

  it("are spread evenly, add up, and do not depend on the order of the nodes", () => {
    const pipelines = ["a", "b", "c", "d", "e"].map((name, index) => ({
      name,
      parallelism: { strategy: "CONSTANT" as const, constant: index + 1 },
    }));
    const nodes = ["n1", "n2", "n3"];
    const shares = assignWorkers({ pipelines, nodes: named(...nodes) });
    for (const { name, parallelism } of pipelines) {
      const counts = nodes.map(
        (node) => shares.get(node)?.find(({ pipeline }) => pipeline === name)?.count ?? 0,
      );
      expect(counts.reduce((sum, count) => sum + count, 0)).toBe(parallelism.constant);
      expect(Math.max(...counts) - Math.min(...counts)).toBeLessThanOrEqual(1);
    }
    expect(assignWorkers({ pipelines, nodes: named("n3", "n1", "n2") })).toEqual(shares);
    expect(assignWorkers({ pipelines, nodes: [] }).size).toBe(0);
  });

  it("go elsewhere if a node has no room, and are shared fairly if none has", () => {
    const many = { strategy: "CONSTANT" as const, constant: 400 };
    const pipelines = [
      { name: "many", parallelism: many },
      { name: "one", parallelism: { strategy: "CONSTANT" as const, constant: 1 } },
    ];
    const total = (spread: ReturnType<typeof assignWorkers>, name: string) =>
      [...spread.values()].flat().reduce((sum, each) => sum + (each.pipeline === name ? each.count : 0), 0);
    const on = (spread: ReturnType<typeof assignWorkers>, node: string) =>
      spread.get(node)?.reduce((sum, { count }) => sum + count, 0);
    const within = (rooms: Readonly<Record<string, number | undefined>>, executor = "docker") =>
      Object.entries(rooms).map(([name, workers]) => ({
        ...{ name, executor },
        ...(workers !== undefined && { bounds: { running: 1, workers } }),
      }));
    const small = assignWorkers({ pipelines, nodes: within({ n1: 3, n2: undefined }) });
    expect([total(small, "many"), total(small, "one"), on(small, "n1")]).toEqual([400, 1, 3]);
    const full = assignWorkers({ pipelines, nodes: within({ n1: 200, n2: 56 }) });
    expect([total(full, "many"), total(full, "one")]).toEqual([255, 1]);
    expect([on(full, "n1"), on(full, "n2")]).toEqual([200, 56]);
    // One that may run on some of the nodes only gets its share of those, and nobody's share is lost.
    const boxed = { name: "boxed", parallelism: many, container: "required" as const };
    const nodes = [...within({ n1: 10 }), ...within({ p1: 30 }, "process")];
    const mixed = assignWorkers({ pipelines: [...pipelines, boxed], nodes });
    expect(["many", "one", "boxed"].map((name) => total(mixed, name))).toEqual([29, 1, 10]);
    expect(mixed.get("p1")?.some(({ pipeline }) => pipeline === "boxed")).toBe(false);
  });

  it.each([
    [[5, 3], 10, [5, 3]],
    [[400, 1], 256, [255, 1]],
    [[4, 4, 4], 10, [3, 3, 4]],
    [[9, 1, 9], 3, [1, 1, 1]],
    [[2, 2], 0, [0, 0]],
    [[], 4, []],
  ])("of %j in a room of %i are shared as %j", (wants, room, shares) => {
    expect(fairShares(wants, room)).toEqual(shares);
  });

  it("are one on each node by default", () => {
    const { parallelism_spec: parallelism } = PipelineSpec.parse({
      pipeline: { name: "p" },
      transform: { image: "i", cmd: ["c"] },
    });
    const shares = assignWorkers({ pipelines: [{ name: "p", parallelism }], nodes: named("n1", "n2", "n3") });
    expect([...shares.values()]).toEqual([1, 2, 3].map(() => [{ pipeline: "p", count: 1 }]));
  });

  it("are two on each node with a coefficient of 2", () => {
    const pipelines = [{ name: "p", parallelism: { strategy: "COEFFICIENT" as const, coefficient: 2 } }];
    for (let live = 1; live <= 5; live++) {
      const nodes = Array.from({ length: live }, (_, n) => `n${n}`);
      const shares = assignWorkers({ pipelines, nodes: named(...nodes) });
      expect([...shares.values()]).toEqual(nodes.map(() => [{ pipeline: "p", count: 2 }]));
    }
  });

  it("are spread anew over the nodes there are, always as many as the rule says", () => {
    const parallelisms = [
      { strategy: "CONSTANT" as const, constant: 7 },
      { strategy: "COEFFICIENT" as const, coefficient: 0.4 },
      { strategy: "COEFFICIENT" as const, coefficient: 1.7 },
    ];
    const pipelines = parallelisms.map((parallelism, n) => ({ name: `p${n}`, parallelism }));
    const nodes = Array.from({ length: 12 }, (_, n) => `node-${n}`);
    for (let live = 1; live <= nodes.length; live++) {
      const shares = [...assignWorkers({ pipelines, nodes: named(...nodes.slice(0, live)) }).values()];
      for (const { name, parallelism } of pipelines) {
        const counts = shares.map((share) => share.find(({ pipeline }) => pipeline === name)?.count ?? 0);
        expect(counts.reduce((sum, count) => sum + count, 0)).toBe(
          workerCount({ parallelism }, named(...nodes.slice(0, live))),
        );
        expect(Math.max(...counts) - Math.min(...counts)).toBeLessThanOrEqual(1);
      }
    }
  });

  it("do not put every pipeline of one worker on the same node", () => {
    const pipelines = Array.from({ length: 40 }, (_, index) => ({
      name: `pipeline-${index}`,
      parallelism: { strategy: "CONSTANT" as const, constant: 1 },
    }));
    const shares = assignWorkers({ pipelines, nodes: named("n1", "n2", "n3", "n4") });
    for (const share of shares.values()) expect(share.length).toBeGreaterThan(2);
  });

  it("of a pipeline that demands a container go to the nodes that have them, and count those alone", () => {
    const parallelism = { strategy: "COEFFICIENT" as const, coefficient: 1 };
    const pipelines = [
      { name: "picky", parallelism, container: "required" as const },
      { name: "any", parallelism },
    ];
    const nodes = [...named("n1", "n3"), { name: "n2", executor: "process" }];
    const any = { pipeline: "any", count: 1 };
    const picky = { pipeline: "picky", count: 1 };
    expect(Object.fromEntries(assignWorkers({ pipelines, nodes }))).toEqual({
      n1: [picky, any],
      n2: [any],
      n3: [picky, any],
    });
    const [, ...bare] = assignWorkers({ pipelines, nodes: nodes.slice(2) }).values();
    expect(bare).toEqual([]);
  });
});
