import { describe, expect, test } from "vitest";
import { type Flow, wayBack } from "../../../worker/core/circles.ts";

function flow(pipeline: string, ...inputs: string[]): Flow {
  return { pipeline, inputs, output: `master.${pipeline}` };
}

function names(way: readonly Flow[] | undefined): string[] | undefined {
  return way?.map(({ pipeline }) => pipeline);
}

describe("the way of data from one bucket to another", () => {
  const flows = [flow("b", "master.a"), flow("c", "master.x", "master.b"), flow("d", "master.c", "master.b")];

  test("is the pipelines that it passes through, in their order", () => {
    expect(names(wayBack(flows, { from: "master.c", to: "master.a" }))).toEqual(["b", "c"]);
  });

  test("is a shortest one if there are several", () => {
    expect(names(wayBack(flows, { from: "master.d", to: "master.a" }))).toEqual(["b", "d"]);
  });

  test("is none against the stream, or from what nobody makes", () => {
    expect(wayBack(flows, { from: "master.a", to: "master.c" })).toBeUndefined();
    expect(wayBack(flows, { from: "master.y", to: "master.a" })).toBeUndefined();
  });

  test("goes by what a pipeline reads and by what it is about to read", () => {
    const planned = [...flows, { ...flow("b", "master.z"), isProposed: true }];
    expect(names(wayBack(planned, { from: "master.c", to: "master.a" }))).toEqual(["b", "c"]);
    expect(wayBack(planned, { from: "master.c", to: "master.z" })?.[0]).toMatchObject({ isProposed: true });
  });

  test("is found among pipelines that go in a circle already, which end the search and not the program", () => {
    const ring = [flow("p", "master.q"), flow("q", "master.p")];
    expect(names(wayBack(ring, { from: "master.p", to: "master.q" }))).toEqual(["p"]);
    expect(wayBack(ring, { from: "master.p", to: "master.a" })).toBeUndefined();
  });
});
