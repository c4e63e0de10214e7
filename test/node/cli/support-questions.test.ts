import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { describe, expect, onTestFinished, test } from "vitest";
import { Redactor } from "../../../cli/output/redact.ts";
import { type AskOptions, askGateway, type Missing } from "../../../cli/support/ask-gateway.ts";

type Answers = (path: string) => unknown;

/** Never answered. */
const SILENCE = Symbol("silence");

/** Asks a gateway that answers what `answers` gives as JSON, and 403 if that is undefined. */
async function ask(answers: Answers, options: AskOptions = {}) {
  const paths: string[] = [];
  const open = new Set<ServerResponse>();
  const server = createServer(({ url = "" }, response) => {
    const path = url.replace(/^\/api\/v1|\?.*$/g, "");
    paths.push(path);
    const answer = answers(path);
    if (answer === SILENCE) return void open.add(response);
    const refusal = { error: { code: "AccessDenied", message: `no ${path}` } };
    response.writeHead(answer === undefined ? 403 : 200, { "content-type": "application/json" });
    response.end(JSON.stringify(answer ?? refusal));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  const connection = {
    endpoint: `http://127.0.0.1:${port}`,
    accessKeyId: "some-key",
    secretAccessKey: "some-secret",
    endpointSource: "a test",
    keySource: "a test",
  };
  const missing: Missing[] = [];
  const redactor = new Redactor();
  const told = await askGateway(connection, { missing, redactor }, options);
  return { ...told, missing, redactor, paths };
}

const REST = { "/now": { now: 1 }, "/jobs": { jobs: [] }, "/admin/log": { lines: ['{"msg":"a line"}'] } };
const OTHERS: Readonly<Record<string, unknown>> = {
  ...REST,
  ...{ "/readyz": { ready: true }, "/whoami": { id: "some-key" }, "/nodes": { nodes: [] }, "/usage": {} },
};

function pipeline(name: string, hush: string) {
  const env = { DB_URL: hush };
  return {
    name,
    state: "active",
    version: 1,
    createdAt: 1,
    inputs: ["texts"],
    output: `master.${name}`,
    outputRepo: name,
    outputBranch: "master",
    limited: false,
    reason: null,
    spec: {
      pipeline: { name },
      inputs: [{ repo: { name: "texts" }, glob: "/*" }],
      transform: { image: "busybox", cmd: ["true"], env },
    },
  };
}

/** A gateway of pipelines `p0`, `p1`, …, whose variables are `hush-number-0` and so on. */
function withPipelines(count: number, other: Answers = () => undefined): Answers {
  return (path) => {
    const own = other(path);
    if (own !== undefined) return own === null ? undefined : own;
    const listed = Array.from({ length: count }, (_, at) => pipeline(`p${at}`, `hush-number-${at}`));
    if (path === "/pipelines") return { pipelines: listed };
    const [, name, loops] = /^\/pipelines\/(\w+)(\/loops)?$/.exec(path) ?? [];
    if (loops) return { loops: [] };
    return OTHERS[path] ?? listed.find((each) => each.name === name);
  };
}

describe("what sluice support asks a gateway", () => {
  test("is what may quote variables only if those of all pipelines are known", async () => {
    const gone = withPipelines(9, (path) => (path === "/pipelines/p0" ? null : undefined));
    const { parts, missing, redactor, paths } = await ask(gone);
    const { pipelines } = parts.get("pipelines.json") as { pipelines: { name: string }[] };
    expect(pipelines).toHaveLength(9);
    expect(pipelines[0]).toEqual({ name: "p0", error: expect.stringContaining("no /pipelines/p0") });
    expect(pipelines[8]).toMatchObject({ name: "p8", variables: ["DB_URL"], loops: { loops: [] } });
    expect(redactor.text("hush-number-8")).toBe("[redacted]");
    const why = "it may quote variables of pipelines, and 1 of 9 pipelines did not tell theirs";
    expect(missing).toEqual(["now.json", "jobs.json", "log.txt"].map((part) => ({ part, why })));
    expect(Object.keys(REST).filter((path) => paths.includes(path))).toEqual([]);
    expect([...parts.keys()]).toContain("usage.json");
  });

  test("is nothing that may quote variables if the pipelines are not known at all", async () => {
    const { parts, missing } = await ask(
      withPipelines(1, (path) => (path === "/pipelines" ? null : undefined)),
    );
    expect([...parts.keys()]).toEqual(["ready.json", "key.json", "nodes.json", "usage.json"]);
    expect(missing.map(({ part }) => part)).toEqual(["pipelines.json", "now.json", "jobs.json", "log.txt"]);
  });

  test("is nothing that may quote variables which the key may not see", async () => {
    const hiding = withPipelines(2, (path) => {
      return path === "/pipelines/p1" ? { ...pipeline("p1", "hush"), hidden: ["transform.env"] } : undefined;
    });
    const { parts, missing } = await ask(hiding);
    expect(missing.map(({ part }) => part)).toEqual(["now.json", "jobs.json", "log.txt"]);
    expect(parts.get("pipelines.json")).toMatchObject({ pipelines: [{ name: "p0" }, { name: "p1" }] });
  });

  test("are variables of more pipelines than are told of", async () => {
    const { parts, missing, redactor } = await ask(withPipelines(203));
    expect(missing).toEqual([]);
    const told = parts.get("pipelines.json") as { total: number; pipelines: object[] };
    expect([told.total, told.pipelines.length]).toEqual([203, 200]);
    expect(redactor.text("hush-number-202")).toBe("[redacted]");
    expect(missing).toEqual([]);
    expect(parts.get("log.txt")).toEqual(['{"msg":"a line"}']);
  });

  test("is first whether it is ready, and the rest even if nothing of that is answered", async () => {
    const { parts, missing, paths, answers } = await ask((path) =>
      path === "/readyz" ? { ready: false } : undefined,
    );
    expect(paths[0]).toBe("/readyz");
    expect(parts.get("ready.json")).toEqual({ ready: false });
    expect(answers).toBe(true);
    expect(missing.map(({ part }) => part)).toEqual(
      ["key", "pipelines", "now", "jobs", "nodes", "usage"].map((part) => `${part}.json`).concat("log.txt"),
    );
    expect(paths).toContain("/usage");
  });

  test("ends for pipelines that are stuck when their time is over, and goes on", async () => {
    const over = new AbortController();
    let stuck = 0;
    const slow = withPipelines(9, (path) => {
      if (!path.endsWith("/loops")) return undefined;
      stuck += 1;
      if (stuck === 4) over.abort(new Error("the time is over"));
      return SILENCE;
    });
    const shown: string[] = [];
    const live = {
      show: (lines: readonly string[]) => void shown.push(...lines),
      clear: () => void shown.push(""),
    };
    const { parts, missing } = await ask(slow, { deadline: () => over.signal, live });
    const { pipelines } = parts.get("pipelines.json") as { pipelines: { loops: string }[] };
    expect(pipelines.map(({ loops }) => loops).sort()).toEqual([
      ...Array(5).fill("not asked: the pipelines took too long"),
      ...Array(4).fill("the time is over"),
    ]);
    expect(stuck).toBe(4);
    expect(missing).toEqual([]);
    expect(parts.get("now.json")).toEqual({ now: 1 });
    expect(shown).toContain("asked 9 of 9 pipelines how they stand");
    expect(shown.at(-1)).toBe("");
  });

  test("is no more of the pipelines whose time is over, nor what may quote them", async () => {
    const over = new AbortController();
    let stuck = 0;
    const slow = withPipelines(12, (path) => {
      if (!/^\/pipelines\/p([5-9]|\d\d)$/.test(path)) return undefined;
      stuck += 1;
      if (stuck === 4) over.abort(new Error("the time is over"));
      return SILENCE;
    });
    const { parts, missing } = await ask(slow, { deadline: () => over.signal });
    const { pipelines } = parts.get("pipelines.json") as { pipelines: { error?: string }[] };
    expect(pipelines[5]).toEqual({ name: "p5", error: "the time is over" });
    expect(pipelines[9]?.error).toBe("not asked: the pipelines took too long");
    expect(missing.map(({ part }) => part)).toEqual(["now.json", "jobs.json", "log.txt"]);
  });
});
