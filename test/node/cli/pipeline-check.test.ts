import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { jsonFault } from "../../../cli/spec/json-fault.ts";
import { parseSpec, readSpecFile } from "../../../cli/spec/spec-file.ts";
import { PipelineCheck } from "../../../protocol/pipeline-check.ts";
import {
  type DevServer,
  sluice,
  sluiceCommand,
  sluiceEnv,
  startDevServer,
} from "../../support/dev-server.ts";
import { type Ended, run } from "../../support/processes.ts";
import { seededRandom } from "../../support/random.ts";
import { S3 } from "../../support/s3.ts";
import { scratchFolder } from "../../support/scratch.ts";
import { REST } from "../../support/suite.ts";

describe("a text that is not JSON", () => {
  test.each([
    ["", 1, 1, "the text ends too early"],
    ['{\n  "a": 1,\n}', 2, 9, "there is a comma behind the last entry"],
    ['{\n  "a": 1\n  "b": 2\n}', 3, 3, "expected ',' or '}'"],
    ["{\n  a: 1\n}", 2, 3, 'expected a name in double quotes, such as "glob"'],
    ["{\n  'a': 1\n}", 2, 3, 'expected a name in double quotes, such as "glob"'],
    ["{\"a\": 'b'}", 1, 7, "strings stand in double quotes"],
    ['{"a" 1}', 1, 6, "expected ':' behind the name"],
    ['{"a": [1, 2', 1, 12, "the text ends before the ']' to the '[' of line 1"],
    ['{\n"a": {\n"b": 1\n', 4, 1, "the text ends before the '}' to the '{' of line 2"],
    ['{"a": "b\n"}', 1, 9, "a string can't hold this: write \\n, \\t or \\u…"],
    ['{"a": "b', 1, 7, "the text ends inside this string"],
    ['{"a": "\\d"}', 1, 8, "'\\' is followed by what JSON does not know"],
    ['{"a": yes}', 1, 7, "'yes' is no value"],
    ['{"a": 01}', 1, 7, "'01' is no value"],
    ['{"a": }', 1, 7, "'}' is no value"],
    ['// a\n{"a": 1}', 1, 1, "JSON has no comments"],
    ['{"a": 1 # b\n}', 1, 9, "JSON has no comments"],
    ['{"a": 1} {"b": 2}', 1, 10, "another object begins: give each pipeline a file of its own"],
    ['{"a": 1} end', 1, 10, "there is more text behind the end"],
    ["[".repeat(201), 1, 201, "this nests too deep"],
  ])("%j is wrong at line %i, column %i", (text, line, column, problem) => {
    expect(jsonFault(text)).toEqual({ line, column, problem });
  });

  test("is told from JSON as the platform tells it", () => {
    const random = seededRandom(4);
    const pieces = [
      "{",
      "}",
      "[",
      "]",
      ",",
      ":",
      '"a"',
      '"\\n"',
      "1",
      "-1.5e3",
      "true",
      "null",
      " ",
      "\n",
      '"',
      "\\",
      "x",
      "0",
    ];
    const pick = (): string => pieces[Math.floor(random() * pieces.length)] ?? "";
    const good = JSON.stringify({ a: [1, { b: "c\n" }, null, []], d: { e: true } });
    let accepted = 0;
    for (let round = 0; round < 20_000; round++) {
      const at = Math.floor(random() * good.length);
      const text =
        round % 2 === 0
          ? Array.from({ length: Math.floor(random() * 7) }, pick).join("")
          : good.slice(0, at) + pick() + good.slice(at + Math.floor(random() * 2));
      const isJson = parses(text);
      expect(jsonFault(text) === undefined, text).toBe(isJson);
      if (isJson) accepted++;
    }
    expect(accepted).toBeGreaterThan(500);
  });
});

function parses(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

describe("a specification file", () => {
  test.each([
    ["spec.json", "", "spec.json is not JSON: it is empty"],
    ["spec.json", "pipeline:\n  name: edges\n", "it looks like YAML: name it .yaml, and it is read"],
    [
      "spec.json",
      "---\npipeline:\n  name: edges\n",
      "spec.json is not JSON: line 1, column 1: '---' is no value; it looks like YAML: name it .yaml",
    ],
    [
      "spec.json",
      '{ "pipeline": { "name": "edges", } }',
      "spec.json is not JSON: line 1, column 32: there is a comma",
    ],
    ["spec.json", "[{}, {}]", "spec.json holds a list of 2: a specification is one object"],
  ])("%s of %j is refused with a hint", (file, content, says) => {
    expect(() => parseSpec(content, file)).toThrow(says);
  });

  test.each([
    ["", "it is empty"],
    ["a: 1\nb: [1, 2\nc: 3\n", "line 3, column 1: "],
    ["a: 1\na: 2\n", "line 2, column 1: Map keys must be unique"],
    ["a: 1\n---\nb: 2\n", "holds another document from line 2 on: a specification is one object"],
    ["a: &a [*a]\n", "is not YAML: an alias (*) stands inside of what it names"],
    ["- a: 1\n- a: 2\n", "holds a list of 2: a specification is one object"],
    [
      "hello",
      "holds text and no fields, from line 1 on: a specification begins with {, or in YAML with a field",
    ],
  ])("in YAML that is wrong says where: %j", async (content, says) => {
    const file = join(scratchFolder(), "spec.yaml");
    writeFileSync(file, content);
    await expect(readSpecFile(file)).rejects.toThrow(says);
  });

  test("in YAML is what its JSON would be", async () => {
    const file = join(scratchFolder(), "spec.YML");
    const stdin = "stdin:\n    - |-\n      for f in /pfs/in/*; do\n      wc $f; done";
    writeFileSync(
      file,
      `# counts\npipeline: {name: count}\ntransform:\n  image: busybox\n  ${stdin}\ndatumTries: 1\n`,
    );
    expect((await readSpecFile(file)).spec).toEqual({
      pipeline: { name: "count" },
      transform: { image: "busybox", stdin: ["for f in /pfs/in/*; do\nwc $f; done"] },
      datumTries: 1,
    });
  });

  test.each([
    ["spec", '\n { "datumTries": 1 }'],
    ["spec.txt", "# one try\ndatumTries: 1\n"],
    ["spec", "\ufeff---\ndatumTries: 1\n"],
  ])("whose name (%s) does not say what it holds is told by how it begins: %j", async (name, content) => {
    const file = join(scratchFolder(), name);
    writeFileSync(file, content);
    expect((await readSpecFile(file)).spec).toEqual({ datumTries: 1 });
  });

  test("that is JSON is no YAML", () => {
    expect(() => parseSpec('{\n  "a": 1,\n  b: 2\n}', "spec.json")).toThrow(/^(?!.*YAML)/);
  });
});

describe("sluice pipeline check", () => {
  let server: DevServer;

  beforeAll(async () => {
    server = await startDevServer();
    const s3 = new S3(server);
    await s3.createBucket("master.images");
    await s3.createBucket("master.settings");
    for (const file of ["b.png", "a.png", "notes/1"]) await s3.put("master.images", file, file);
  });
  afterAll(() => server.stop());

  const check = (content: unknown, ...args: string[]): Promise<Ended> => {
    const file = join(scratchFolder(), "spec.json");
    // Editors on Windows begin a file so.
    writeFileSync(file, `\ufeff${JSON.stringify(content)}`);
    return sluice(server, "pipeline", "check", "-f", file, ...args);
  };
  const spec = (...inputs: object[]): object => ({
    pipeline: { name: "edges" },
    transform: { image: "busybox", cmd: ["true"] },
    inputs,
  });
  const images = { repo: { name: "images" }, glob: "*" };

  /** What comes of a specification that another program writes into a pipe. */
  const piped = (content: string): Promise<Ended> => {
    const file = join(scratchFolder(), "content");
    writeFileSync(file, content);
    const line = ["sh", "-c", 'cat "$0" | "$@"', file, ...sluiceCommand(["pipeline", "check", "-f", "-"])];
    return run(line, { cwd: scratchFolder(), env: sluiceEnv(server) });
  };

  test.each([
    ["JSON", JSON.stringify(spec(images), null, 2)],
    [
      "YAML",
      "# edges\npipeline: {name: edges}\ntransform:\n  image: busybox\n  cmd: ['true']\ninputs:\n- repo: {name: images}\n  glob: '*'\n",
    ],
  ])("takes %s out of a pipe", async (_language, content) => {
    const { code, stdout, stderr } = await piped(content);
    expect([stderr, code]).toEqual(["", 0]);
    expect(stdout.toString()).toContain("edges is good\n");
  });

  test.each([
    ['{\n  "pipeline": { "name": "edges", }\n}', "stdin is not JSON: line 2, column 32: there is a comma"],
    ["pipeline:\n  name: edges\n name: edges\n", "stdin is not YAML: line 3, column "],
    ["pipeline: {name: a}\n---\npipeline: {name: b}\n", "stdin holds another document from line 2 on"],
    ["", "stdin is not JSON: it is empty"],
    ["cat: edges.json: No such file", "stdin is not YAML: line 1, column "],
  ])("names the line of what is wrong in a pipe: %j", REST, async (content, says) => {
    const { code, stdout, stderr } = await piped(content);
    expect([stdout.toString(), code]).toEqual(["", 1]);
    expect(stderr).toContain(`error: ${says}`);
  });

  test("shows workers, inputs, first datums and the specification with its defaults", async () => {
    const { code, stdout, stderr } = await check(spec(images));
    expect([stderr, code]).toEqual(["", 0]);
    const [head = "", resolved = ""] = stdout.toString().split("spec     ");
    expect(head.split("\n")).toEqual([
      "edges is good",
      "workers  1 (no node lives)",
      "output   s3://master.edges",
      "input    images: /* in s3://master.images, 3 matches",
      "datums   3",
      "  /a.png",
      "  /b.png",
      "  /notes",
      "",
    ]);
    expect(JSON.parse(resolved)).toMatchObject({ datumTries: 3, inputs: [{ name: "images", glob: "/*" }] });
  });

  test("says which input is empty, and pairs datums of several", REST, async () => {
    const settings = { repo: { name: "settings" }, glob: "/" };
    const waiting = (await check(spec(images, settings))).stdout.toString();
    expect(waiting).toContain("datums   none yet: the first job waits for data in settings\n");
    const other = { ...images, name: "other", glob: "/?.png" };
    expect((await check(spec(images, other))).stdout.toString()).toContain(
      "\n  images:/b.png with other:/a.png\n",
    );
  });

  test("with --json is one document", REST, async () => {
    const { stdout } = await check(spec(images), "--json");
    expect(PipelineCheck.parse(JSON.parse(stdout.toString())).datums.total).toBe(3);
  });

  test("tells every problem, as creating would, and ends with 1", async () => {
    const { code, stdout, stderr } = await check({
      ...spec({ repo: { name: "imges" }, glob: "/*.[ch" }),
      colour: [],
    });
    expect([stdout.toString(), code]).toEqual(["", 1]);
    expect(stderr.split("\n")).toEqual([
      "error: The pipeline specification has 3 problems.",
      expect.stringMatching(/^ {2}colour: there is no field 'colour': leave it out/),
      "  inputs[0].glob: the glob '/*.[ch' has a '[' without its ']': write '\\[' for the character itself (at character 4)",
      "  inputs[0].repo.name: there is no repo 'imges': did you mean 'images'?",
      "",
    ]);
  });

  test("says what to write in place of Pachyderm's fields, and of no other system's", async () => {
    const { stderr } = await check({
      ...spec({ pfs: { repo: "images", glob: "/*" } }),
      command: ["true"],
      parallelismSpec: { constant: 4 },
    });
    expect(stderr).toContain("  command: there is no field 'command': ");
    expect(stderr).toContain(
      `parallelismSpec: there is no field 'parallelismSpec' here: write "parallelism_spec": { "strategy"`,
    );
    expect(stderr).toContain(
      `inputs[0].pfs: there is no field 'pfs' here: write its fields here: "repo": { "name": "images" }, "glob": "/*"`,
    );
  });

  test("makes nothing", async () => {
    await check(spec(images));
    expect((await sluice(server, "pipeline", "list", "--json")).stdout.toString()).toBe('{"pipelines":[]}\n');
  });

  test("with --update asks for a pipeline that is there", REST, async () => {
    const { code, stderr } = await check(spec(images), "--update");
    expect(stderr).toContain("there is no pipeline 'edges' to update");
    expect(code).toBe(7);
  });

  test("warns of a glob that matches nothing, and so do create and update, beside their answer", async () => {
    const nothing = spec({ ...images, glob: "/*.gif" });
    const warning = "warning: the glob /*.gif of the input images matches nothing\n";
    expect((await check(nothing)).stderr).toBe(warning);
    const file = join(scratchFolder(), "spec.json");
    writeFileSync(file, JSON.stringify(nothing));
    const created = await sluice(server, "pipeline", "create", "-f", file);
    expect([created.stdout.toString(), created.stderr, created.code]).toEqual([
      "created edges; its output is s3://master.edges\n",
      warning,
      0,
    ]);
    const planned = await sluice(server, "pipeline", "update", "-f", file, "--plan");
    expect(planned.stdout.toString()).toContain(
      "\nchanges  nothing\nplan     would run 0 datums, and keep the results of 0\n",
    );
    const wider = join(scratchFolder(), "spec.json");
    writeFileSync(wider, JSON.stringify(spec(images)));
    const more = await sluice(server, "pipeline", "update", "-f", wider, "--plan");
    expect(more.stdout.toString().split("\n").slice(4, 7)).toEqual([
      "changes  inputs.images.glob",
      "plan     would run 3 datums, and keep the results of 0",
      "  3  inputs.images.glob changes: /a.png, /b.png, /notes",
    ]);
    const checked = await sluice(server, "pipeline", "check", "-f", wider, "--update");
    expect(checked.stdout.toString()).toBe(more.stdout.toString());
    const updated = await sluice(server, "pipeline", "update", "-f", file, "--json");
    expect([JSON.parse(updated.stdout.toString()).name, updated.stderr]).toEqual(["edges", warning]);
  });

  test("counts 200 files in 20 folders to the last, and so does a plan of each of them", async () => {
    const s3 = new S3(server);
    await s3.createBucket("master.shops");
    for (let shop = 0; shop < 20; shop++) {
      const days = Array.from({ length: 10 }, (_, day) => `shop-${shop}/day-${day}.csv`);
      await Promise.all(days.map((key) => s3.put("master.shops", key, key)));
    }
    const days = { ...spec({ repo: { name: "shops" }, glob: "/*/*" }), pipeline: { name: "days" } };
    const { code, stdout, stderr } = await check(days);
    expect([stderr, code]).toEqual(["", 0]);
    expect(stdout.toString().split("\n").slice(3, 5)).toEqual([
      "input    shops: /*/* in s3://master.shops, 200 matches",
      "datums   200; the first ones:",
    ]);
    const file = join(scratchFolder(), "spec.json");
    writeFileSync(file, JSON.stringify(days));
    await sluice(server, "pipeline", "create", "-f", file);
    const plan = async (...args: string[]): Promise<string[]> => {
      const planned = await sluice(server, "pipeline", "update", "-f", file, "--plan", ...args);
      return planned.stdout.toString().split("\n").slice(4, 7);
    };
    expect(await plan()).toEqual([
      "changes  nothing",
      "plan     would run 200 datums, and keep the results of 0",
      expect.stringMatching(/^ {2}200 {2}/),
    ]);
    expect((await plan("--reprocess"))[1]).toBe("plan     would run 200 datums, and keep the results of 0");
  });

  test("has help with examples", async () => {
    const { stdout } = await sluice(server, "pipeline", "check", "--help");
    expect(stdout.toString()).toContain("$ sluice pipeline check -f edges.json");
  });
});
