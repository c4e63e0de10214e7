import { beforeAll, describe, expect, test } from "vitest";
import type { PipelineVersion } from "../../../protocol/pipelines.ts";
import type { KeyScope } from "../../../worker/core/permissions.ts";
import { failed, good, makeBranch, paths, testContext } from "./support.ts";

interface Wish {
  readonly name: string;
  readonly input: string;
  readonly cmd?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
}

function spec({ name, input, cmd = ["true"], env }: Wish): Record<string, unknown> {
  return {
    pipeline: { name },
    transform: { image: "busybox", cmd, ...(env && { env }) },
    inputs: [{ repo: { name: input }, glob: "/*" }],
  };
}

const as = (repos: readonly string[] | null) => ({
  caller: { scope: { level: "read", repos } as KeyScope },
});

async function update(body: object, query = ""): Promise<void> {
  await good(`POST /pipelines?update=true${query}`, { body });
}

describe("the history of a pipeline", () => {
  test("names each version, who submitted it and what it changed", async () => {
    await makeBranch({ repo: "past-in", branch: "master" });
    await makeBranch({ repo: "past-other", branch: "master" });
    const { id } = await good("POST /keys", { body: { level: "admin", description: "of the night shift" } });
    const night = { caller: { keyId: id } };
    await good("POST /pipelines", { body: spec({ name: "past", input: "past-in" }) });
    await good("POST /pipelines?update=true", {
      body: spec({ name: "past", input: "past-in", cmd: ["false"] }),
      ...night,
    });
    await update(spec({ name: "past", input: "past-other", cmd: ["false"] }));
    await update(spec({ name: "past", input: "past-other", cmd: ["false"] }), "&reprocess=true");
    const { versions, next } = await good("GET /pipelines/past/versions");
    expect(next).toBeNull();
    const root = testContext().config.rootKeys[0].id;
    expect(versions).toMatchObject([
      { version: 4, present: true, key: root, changes: [], runsAll: true },
      { version: 3, present: false, key: root, runsAll: false },
      {
        ...{ version: 2, key: id, keyDescription: "of the night shift" },
        ...{ changes: ["transform.cmd"], runsAll: true },
      },
      { version: 1, key: root, changes: null, runsAll: false, limited: false, hasText: false },
    ]);
    expect(versions[0].keyDescription).toBeUndefined();
    const scoped = await good("GET /pipelines/past/versions", as(["past"]));
    expect(scoped.versions[2].key).toBe(id);
    expect(JSON.stringify(scoped)).not.toContain("night shift");
    expect(versions[1].changes).toContain("inputs.past-other.repo");
    for (const { createdAt } of versions) expect(createdAt).toBeGreaterThan(0);
  });

  test("comes in pages", async () => {
    await makeBranch({ repo: "paged-in", branch: "master" });
    await good("POST /pipelines", { body: spec({ name: "paged", input: "paged-in" }) });
    for (const cmd of ["2", "3"]) await update(spec({ name: "paged", input: "paged-in", cmd: [cmd] }));
    const first = await good("GET /pipelines/paged/versions?limit=2");
    expect(first.versions.map(({ version }: PipelineVersion) => version)).toEqual([3, 2]);
    const second = await good(`GET /pipelines/paged/versions?limit=2&after=${first.next}`);
    expect(second.versions.map(({ version }: PipelineVersion) => version)).toEqual([1]);
    expect(second.next).toBeNull();
  });

  test("shows a version whole, by its number or as the latest", async () => {
    await makeBranch({ repo: "whole-v-in", branch: "master" });
    await good("POST /pipelines", { body: spec({ name: "whole-v", input: "whole-v-in" }) });
    await update(spec({ name: "whole-v", input: "whole-v-in", cmd: ["false"] }));
    expect(await good("GET /pipelines/whole-v/versions/1")).toMatchObject({
      ...{ pipeline: "whole-v", version: 1, present: false },
      spec: { transform: { cmd: ["true"] }, datumTries: 3 },
    });
    expect(await good("GET /pipelines/whole-v/versions/latest")).toMatchObject({
      ...{ version: 2, present: true, changes: ["transform.cmd"] },
      spec: { transform: { cmd: ["false"] } },
    });
    expect(await failed("GET /pipelines/whole-v/versions/3")).toMatchObject({
      status: 404,
      code: "NotFound",
    });
    const wrong = await failed("GET /pipelines/whole-v/versions/first");
    expect(wrong).toMatchObject({ status: 400, code: "InvalidRequest" });
    expect(wrong.message).toContain("'latest'");
    for (const path of ["versions", "versions/1"]) {
      const error = await failed(`GET /pipelines/no-whole/${path}`);
      expect(error).toMatchObject({ status: 404, code: "NoSuchPipeline" });
    }
  });

  test("goes with the pipeline, and a new one of the name begins at its version 1", async () => {
    await makeBranch({ repo: "gone-v-in", branch: "master" });
    const hush = spec({ name: "gone-v", input: "gone-v-in", env: { TOKEN: "hush" } });
    await good("POST /pipelines", { body: hush });
    await update(spec({ name: "gone-v", input: "gone-v-in", cmd: ["false"] }));
    await good("DELETE /pipelines/gone-v");
    expect((await failed("GET /pipelines/gone-v/versions")).code).toBe("NoSuchPipeline");
    await good("POST /pipelines", { body: spec({ name: "gone-v", input: "gone-v-in" }) });
    const { versions } = await good("GET /pipelines/gone-v/versions");
    expect(versions).toHaveLength(1);
    expect((await failed("GET /pipelines/gone-v/versions/2")).status).toBe(404);
  });
});

describe("the variables of an old version", () => {
  const env = { DATABASE_URL: "postgres://me:hush@db" };

  beforeAll(async () => {
    for (const repo of ["old-secret", "new-secret"]) await makeBranch({ repo, branch: "master" });
    await good("POST /pipelines", { body: spec({ name: "moved", input: "old-secret", env }) });
    await update(spec({ name: "moved", input: "new-secret", env: { ...env, MORE: "1" } }));
  });

  const SEES_NONE = [
    { who: "of the output alone", repos: ["moved"] },
    { who: "of the present inputs alone", repos: ["moved", "new-secret"] },
    { who: "of the old inputs alone", repos: ["moved", "old-secret"] },
  ];

  test.each(SEES_NONE)("are hidden from a key $who", async ({ repos }) => {
    const shown = await good("GET /pipelines/moved/versions/1", as(repos));
    expect(JSON.stringify(shown)).not.toContain("hush");
    expect(shown.hidden).toEqual(["transform.env"]);
    expect(shown.spec.transform).toEqual({ image: "busybox", cmd: ["true"] });
  });

  const SEES_ALL = [
    { who: "of the old and the present inputs", repos: ["moved", "old-secret", "new-secret"] },
    { who: "that is not limited", repos: null },
  ];

  test.each(SEES_ALL)("are shown to a key $who", async ({ repos }) => {
    const shown = await good("GET /pipelines/moved/versions/1", as(repos));
    expect(shown.spec.transform.env).toEqual(env);
    expect(shown.hidden).toBeUndefined();
  });

  test("of the present one are shown by the rule of the pipeline itself", async () => {
    const shown = await good("GET /pipelines/moved/versions/2", as(["moved", "new-secret"]));
    expect(shown.spec.transform.env).toEqual({ ...env, MORE: "1" });
    const veiled = await good("GET /pipelines/moved/versions/latest", as(["moved", "old-secret"]));
    expect(JSON.stringify(veiled)).not.toContain("hush");
  });

  test("are told by no history", async () => {
    for (const repos of [["moved"], null]) {
      const history = await good("GET /pipelines/moved/versions", as(repos));
      expect(JSON.stringify(history)).not.toContain("hush");
      expect(history.versions[0].changes).toContain("transform.env");
    }
  });
});

describe("the text of a specification", () => {
  const TEXT = [
    "# what the night shift asked for",
    "pipeline: {name: said}",
    "transform:",
    "  image: busybox",
    '  cmd: ["true"]',
    "inputs:",
    "  - repo: {name: said-in}",
    "    glob: /*   # every file",
    "",
  ].join("\n");
  const body = spec({ name: "said", input: "said-in" });
  const textOf = async (version: string, call = {}): Promise<string | undefined> =>
    (await good(`GET /pipelines/said/versions/${version}`, call)).text;

  beforeAll(async () => {
    for (const repo of ["said-in", "said-other"]) await makeBranch({ repo, branch: "master" });
    await good("POST /pipelines?text=true", { body: { spec: body, text: TEXT } });
  });

  test("comes back as it was, to keys that may read the inputs, also once it is an old version's", async () => {
    expect(await textOf("latest")).toBe(TEXT);
    expect(await textOf("1", as(["said", "said-in"]))).toBe(TEXT);
    const veiled = await good("GET /pipelines/said/versions/1", as(["said"]));
    expect(veiled.text).toBeUndefined();
    expect(veiled.hidden).toEqual(["text"]);
    expect(JSON.stringify(await good("GET /pipelines/said", as(["said"])))).not.toContain("night shift");
    await update(spec({ name: "said", input: "said-other" }));
    expect(await textOf("latest")).toBeUndefined();
    const { versions } = await good("GET /pipelines/said/versions");
    expect(versions.map(({ hasText }: PipelineVersion) => hasText)).toEqual([false, true]);
    expect(await textOf("1")).toBe(TEXT);
    for (const repos of [
      ["said", "said-in"],
      ["said", "said-other"],
    ]) {
      expect(await textOf("1", as(repos)), repos.join(" ")).toBeUndefined();
    }
    expect(await textOf("1", as(["said", "said-in", "said-other"]))).toBe(TEXT);
  });

  test("stays if an update without one changes nothing, and is not that of a version which it makes", async () => {
    await makeBranch({ repo: "unsaid-in", branch: "master" });
    const unsaid = spec({ name: "unsaid", input: "unsaid-in" });
    const text = JSON.stringify(unsaid, null, 4);
    await good("POST /pipelines?text=true", { body: { spec: unsaid, text } });
    await update(unsaid);
    expect(await good("GET /pipelines/unsaid/versions/latest")).toMatchObject({ version: 1, text });
    const other = JSON.stringify(unsaid);
    await good("POST /pipelines?update=true&text=true", { body: { spec: unsaid, text: other } });
    expect(await good("GET /pipelines/unsaid/versions/latest")).toMatchObject({ version: 1, text: other });
    await update(spec({ name: "unsaid", input: "unsaid-in", cmd: ["false"] }));
    const shown = await good("GET /pipelines/unsaid/versions/latest");
    expect([shown.version, shown.text, shown.hasText]).toEqual([2, undefined, false]);
  });

  const REFUSED = [
    {
      that: "comes to another specification",
      text: TEXT.replace("busybox", "alpine"),
      says: "comes to another",
    },
    { that: "comes to none", text: "a: 1", says: "comes to another" },
    { that: "is neither JSON nor YAML", text: "a: [1", says: "is neither JSON nor YAML (line 1" },
    { that: "holds two documents", text: `${TEXT}---\n${TEXT}`, says: "another document begins at line" },
    { that: "is longer than is kept", text: `${TEXT}#${" ".repeat(1_000_000)}`, says: "may have 1000000" },
    {
      that: "has too many lines",
      text: `${TEXT}${"#\n".repeat(20_001)}`,
      says: "has more than 20000 lines",
    },
    { that: "nests without end", text: "[".repeat(19_000), says: "is neither JSON nor YAML" },
    {
      that: "has more names in one object than can be compared",
      text: Array.from({ length: 3000 }, (_, index) => `k${index}: 1`).join("\n"),
      says: "too many fields",
    },
    {
      that: "stands for much more by its aliases",
      text: `a: &a [1]\nb: [${"*a,".repeat(200)}]`,
      says: "more than 100 aliases",
    },
    {
      that: "refers to each of many anchors",
      text: Array.from(
        { length: 101 },
        (_, index) => `a${index}: &a${index} 1\nb${index}: *a${index}\n`,
      ).join(""),
      says: "more than 100 aliases",
    },
    {
      that: "stands for many more bytes by its aliases",
      text: `a: &x "${"x".repeat(980_000)}"\nb: [${"*x,".repeat(99)}]`,
      says: "more than 2000000 characters",
    },
    ...["! ", "&a ", "*a ", '"" ', "'' "].map((mark) => ({
      that: `repeats ${mark}without end`,
      text: `a: ${mark.repeat(300_000)}`,
      says: "has more than 20000 lines",
    })),
  ];

  test.each(REFUSED)("that $that is refused, and nothing is made", async ({ text, says }) => {
    await makeBranch({ repo: "refused-t-in", branch: "master" }).catch(() => undefined);
    const refused = spec({ name: "refused-t", input: "refused-t-in" });
    const error = await failed("POST /pipelines?text=true", { body: { spec: refused, text } });
    expect(error).toMatchObject({ status: 400, code: "InvalidRequest" });
    expect(error.issues).toEqual([{ path: "text", message: expect.stringContaining(says) }]);
    expect((await failed("GET /pipelines/refused-t")).status).toBe(404);
  });

  test("is refused beside a specification that has problems of its own, which are told", async () => {
    const error = await failed("POST /pipelines?text=true", { body: { spec: { pipeline: {} }, text: TEXT } });
    expect(error.code).toBe("InvalidSpec");
    expect(paths(error)).toContain("pipeline.name");
    const limited = { caller: { scope: { level: "admin", repos: ["mine"], pipelines: true } as KeyScope } };
    const denied = await failed("POST /pipelines?text=true", {
      body: { spec: body, text: TEXT },
      ...limited,
    });
    expect(denied).toMatchObject({ status: 403, code: "AccessDenied" });
  });
});
