import { execFileSync } from "node:child_process";
import { describe, expect, test } from "vitest";
import { inLayers } from "../../../console/pages/graph/layers.ts";
import { type Layout, layOut, meets, nodeBox, WIDE } from "../../../console/pages/graph/layout.ts";
import {
  type Graph,
  graphOf,
  type Listed,
  matching,
  neighboursOf,
  only,
  partsOf,
  prefixesOf,
  shapeOf,
  withStreams,
} from "../../../console/pages/graph/topology.ts";
import { editable, languageOf } from "../../../console/pages/pipelines/spec/language.ts";
import { placeAt, rangeOf } from "../../../console/pages/pipelines/spec/place.ts";
import { offersAt } from "../../../console/pages/pipelines/spec/schema.ts";
import { finderIn, readWritten } from "../../../console/pages/pipelines/spec/written.ts";
import { inYaml, namePlaceAt, valuePlaceAt } from "../../../console/pages/pipelines/spec/yaml-place.ts";
import { command } from "../../../console/parts/cli-line.tsx";

function pipeline(name: string, inputs: readonly string[], more: Partial<Listed> = {}): Listed {
  return { name, state: "active", inputs: [...inputs], outputs: [`master.${name}`], ...more };
}

const PIPELINES = [
  pipeline("etl-clean", ["master.raw"]),
  pipeline("etl-join", ["master.etl-clean", "master.masks"]),
  pipeline("train", ["master.etl-join"]),
  pipeline("other", ["master.elsewhere"]),
];

const NO_FOLDS: ReadonlySet<string> = new Set();

describe("the graph", () => {
  const arrows = (graph: ReturnType<typeof graphOf>): string[] =>
    graph.edges.map(({ from, to }) => `${from} → ${to}`).sort();

  test("has an edge from who makes a bucket to who reads it, and a node for each bucket that nobody makes", () => {
    const graph = graphOf(PIPELINES, NO_FOLDS);
    expect(arrows(graph)).toEqual([
      "bucket:master.elsewhere → pipeline:other",
      "bucket:master.masks → pipeline:etl-join",
      "bucket:master.raw → pipeline:etl-clean",
      "pipeline:etl-clean → pipeline:etl-join",
      "pipeline:etl-join → pipeline:train",
    ]);
    expect(partsOf(graph).map(({ nodes }) => nodes.length)).toEqual([5, 2]);
  });

  test("has what pipelines make between them if that is asked for, but for what is in a fold", () => {
    const pipelines = PIPELINES.slice(0, 3);
    expect(arrows(graphOf(pipelines, NO_FOLDS, { hasOutputs: true }))).toEqual([
      "bucket:master.etl-clean → pipeline:etl-join",
      "bucket:master.etl-join → pipeline:train",
      "bucket:master.masks → pipeline:etl-join",
      "bucket:master.raw → pipeline:etl-clean",
      "pipeline:etl-clean → bucket:master.etl-clean",
      "pipeline:etl-join → bucket:master.etl-join",
      "pipeline:train → bucket:master.train",
    ]);
    expect(arrows(graphOf(pipelines, new Set(["etl-"]), { hasOutputs: true }))).toEqual([
      "bucket:master.etl-join → pipeline:train",
      "fold:etl- → bucket:master.etl-join",
      "pipeline:train → bucket:master.train",
    ]);
  });

  test("folds pipelines whose names begin alike, with the buckets that they alone read, and shows the worst of them", () => {
    expect([...prefixesOf(PIPELINES)]).toEqual([["etl-", 2]]);
    const run = { id: "01", createdAt: 1, startedAt: 1, finishedAt: 2 };
    const states = [
      { job: { ...run, state: "success" as const } },
      { job: { ...run, state: "failure" as const } },
    ];
    const [clean = {}, join = {}] = states;
    const graph = graphOf(
      [
        pipeline("etl-clean", ["master.raw"], clean),
        pipeline("etl-join", ["master.etl-clean"], join),
        pipeline("train", ["master.etl-join"]),
      ],
      new Set(["etl-"]),
    );
    expect(graph.nodes.map(({ id, mark }) => [id, mark])).toEqual([
      ["fold:etl-", "failure"],
      ["pipeline:train", "idle"],
    ]);
    expect(arrows(graph)).toEqual(["fold:etl- → pipeline:train"]);
  });

  test("finds nodes by a part of a name, also those of a fold, with all that is before and after them", () => {
    const graph = graphOf(PIPELINES, NO_FOLDS);
    const found = matching(graph, "JOIN");
    expect(found).toEqual(["pipeline:etl-join"]);
    const chosen = withStreams(found, neighboursOf(graph));
    expect([...chosen].sort()).toEqual([
      "bucket:master.masks",
      "bucket:master.raw",
      "pipeline:etl-clean",
      "pipeline:etl-join",
      "pipeline:train",
    ]);
    expect(only(graph, chosen).edges).toHaveLength(4);
    expect(matching(graphOf(PIPELINES, new Set(["etl-"])), "join")).toEqual(["fold:etl-"]);
    expect(matching(graph, " ")).toEqual([]);
  });

  test("has the same shape while states change, and another one when an input does", () => {
    const shape = shapeOf(graphOf(PIPELINES, NO_FOLDS));
    const stopped = PIPELINES.map((one) => ({ ...one, state: "stopped" as const }));
    expect(shapeOf(graphOf(stopped, NO_FOLDS))).toBe(shape);
    const moved = [...PIPELINES.slice(1), pipeline("etl-clean", ["master.masks"])];
    expect(shapeOf(graphOf(moved, NO_FOLDS))).not.toBe(shape);
  });
});

describe("the places of the graph", () => {
  /** Layers in which each reads two of the layer before, and each tenth one of the first layer, too. */
  function layers(count: number, width: number): Graph {
    const nameOf = (layer: number, place: number): string => `p${layer}-${place % width}`;
    const pipelines = Array.from({ length: count * width }, (_, index) => {
      const [layer, place] = [Math.floor(index / width), index % width];
      const before = [nameOf(layer - 1, place), nameOf(layer - 1, place * 3 + 1)];
      const reads = layer === 0 ? ["source"] : place % 10 === 0 ? [...before, nameOf(0, place)] : before;
      return pipeline(
        nameOf(layer, place),
        [...new Set(reads)].map((name) => `master.${name}`),
      );
    });
    return graphOf(pipelines, NO_FOLDS);
  }

  async function placed(graph: Graph): Promise<Layout> {
    const layout = await layOut(graph, { signal: new AbortController().signal });
    if (!layout) throw new Error("nobody stopped it");
    return layout;
  }

  function tangle(graph: Graph): Graph {
    const half = Math.floor(graph.nodes.length / 2);
    const tangled = graph.nodes.flatMap((_, index) => {
      const node = graph.nodes[(index * 7919) % graph.nodes.length];
      return node ? [node] : [];
    });
    return { nodes: tangled, edges: [...graph.edges.slice(half), ...graph.edges.slice(0, half)] };
  }

  const SIZES = [
    ["a small graph", layers(4, 6)],
    ["a graph of 1,000 pipelines", layers(10, 100)],
  ] as const;

  test.each(SIZES)("%s has no node over another, and each edge goes from left to right", async (_, graph) => {
    const { places, edges, width, height } = await placed(graph);
    expect(places.size).toBe(graph.nodes.length);
    const boxes = [...places.values()]
      .map((place) => nodeBox(place, WIDE))
      .sort((a, b) => a.left - b.left || a.top - b.top);
    const covered = boxes.filter((box, index) => {
      const next = boxes[index + 1];
      return next !== undefined && meets(box, next);
    });
    expect(covered).toEqual([]);
    expect(Math.min(...boxes.map(({ left, top }) => Math.min(left, top)))).toBeGreaterThanOrEqual(-0.01);
    expect(Math.max(...boxes.map(({ right }) => right))).toBeLessThanOrEqual(width + 0.01);
    expect(Math.max(...boxes.map(({ bottom }) => bottom))).toBeLessThanOrEqual(height + 0.01);
    expect(edges).toHaveLength(graph.edges.length);
    const wrong = edges.filter(({ from, to, points }) => {
      const [start, end] = [points[0]?.x ?? 0, points.at(-1)?.x ?? 0];
      const isJoined =
        Math.abs(start - WIDE.nodeWidth / 2 - (places.get(from)?.x ?? 0)) < 0.01 &&
        Math.abs(end + WIDE.nodeWidth / 2 - (places.get(to)?.x ?? 0)) < 0.01;
      return !isJoined || start >= end;
    });
    expect(wrong).toEqual([]);
  });

  test.each(SIZES)("%s is placed the same each time", async (_, graph) => {
    const [one, other] = [await placed(graph), await placed(graph)];
    expect([...other.places]).toEqual([...one.places]);
    expect(other.edges).toEqual(one.edges);
  });

  test("an edge of a small graph bends only where it passes a column", async () => {
    const { edges } = await placed(
      graphOf([...PIPELINES, pipeline("late", ["master.etl-clean", "master.train"])], NO_FOLDS),
    );
    const bent = edges.filter(({ points }) => points.length > 2).map(({ from, to }) => `${from} → ${to}`);
    expect(bent).toEqual(["pipeline:etl-clean → pipeline:late"]);
  });

  test("an edge of a large graph that passes layers goes between their nodes", async () => {
    const { places, edges } = await placed(layers(10, 100));
    const long = edges.filter(({ points }) => points.length > 2);
    expect(long.length).toBeGreaterThan(50);
    const boxes = [...places.values()].map((place) => nodeBox(place, WIDE));
    const through = long.filter(({ points }) =>
      points
        .slice(1, -1)
        .some(({ x, y }) => boxes.some((box) => meets(box, { left: x, right: x, top: y, bottom: y }))),
    );
    expect(through).toEqual([]);
  });

  /** How many pairs of edges between neighbouring layers cross. */
  function crossingsOf({ places, edges }: Layout): number {
    const ends = edges.flatMap(({ from, to }) => {
      const [start, end] = [places.get(from), places.get(to)];
      return start && end ? [{ start, end }] : [];
    });
    const crossed = ends.map(
      (one) =>
        ends.filter(
          ({ start, end }) => start.x === one.start.x && (start.y - one.start.y) * (end.y - one.end.y) < 0,
        ).length,
    );
    return crossed.reduce((sum, count) => sum + count, 0) / 2;
  }

  test("lanes of a large graph lie beside each other, each of them a line, in whatever order they come", async () => {
    const lanes = Array.from({ length: 50 }, (_, lane) =>
      Array.from({ length: 5 }, (_, step) =>
        pipeline(`l${lane}s${step}`, [step === 0 ? "master.source" : `master.l${lane}s${step - 1}`]),
      ),
    ).flat();
    const laid = await placed(tangle(graphOf(lanes, NO_FOLDS)));
    expect(crossingsOf(laid)).toBe(0);
    const { places } = laid;
    const bent = laid.edges.filter(({ from, to }) => {
      const [start, end] = [places.get(from), places.get(to)];
      return from.startsWith("pipeline:") && Math.abs((start?.y ?? 0) - (end?.y ?? 0)) > 1;
    });
    expect(bent).toEqual([]);
  });

  test("neighbours in a large graph come beside each other, so that few edges cross", async () => {
    const [count, width] = [10, 40];
    const net = Array.from({ length: count * width }, (_, index) => {
      const [layer, place] = [Math.floor(index / width), index % width];
      const nameOf = (far: number, beside: number): string =>
        `master.n${Math.max(0, layer - far)}-${(place + beside) % width}`;
      const before = [nameOf(1, (place * 7) % 5), nameOf(1 + (place % 3), (place * 3) % 5)];
      return pipeline(`n${layer}-${place}`, layer === 0 ? ["master.source"] : [...new Set(before)]);
    });
    const laid = await placed(tangle(graphOf(net, NO_FOLDS)));
    expect(laid.edges.length).toBeGreaterThan(400);
    // In the order in which they are met along the edges, it is twice as many.
    expect(crossingsOf(laid)).toBeLessThan(1400);
  });

  test("what each step of a long way reads takes no room beside all of them", async () => {
    const steps = Array.from({ length: 300 }, (_, step) =>
      pipeline(`step${step}`, ["master.config", ...(step === 0 ? [] : [`master.step${step - 1}`])]),
    );
    const { height, places } = await placed(graphOf(steps, NO_FOLDS));
    expect(places.size).toBe(301);
    expect(height).toBeLessThan(1000);
  });

  test("the more edges pass layers, the fewer are led round nodes, the short ones first: the work has a bound", () => {
    const [count, width] = [20, 60];
    const edges = Array.from({ length: count * width }, (_, index) => {
      const [layer, place] = [Math.floor(index / width), index % width];
      const spans = layer === 0 ? [] : [1, 2, 3, 4 + (place % 3), 7 + (place % 5)];
      return spans
        .filter((span) => span <= layer)
        .map((span) => [(layer - span) * width + ((place + span) % width), index] as const);
    }).flat();
    const { bends, nodes } = inLayers({ nodes: count * width, edges, nodeRoom: 54, edgeRoom: 12 });
    const passed = edges.map(([from, to]) => (nodes[to]?.layer ?? 0) - (nodes[from]?.layer ?? 0) - 1);
    expect(passed.reduce((sum, each) => sum + each, 0)).toBeGreaterThan(10_000);
    expect(bends.flat().length).toBeLessThanOrEqual(10_000);
    const led = passed.filter((each, index) => each > 0 && bends[index]?.length === each);
    const straight = passed.filter((each, index) => each > 0 && bends[index]?.length === 0);
    expect(led.length + straight.length).toBe(passed.filter((each) => each > 0).length);
    expect(led.length).toBeGreaterThan(1000);
    expect(Math.max(...led)).toBeLessThan(Math.min(...straight));
  });

  test("what is read only at the end stands near it", async () => {
    const graph = layers(10, 20);
    const late = pipeline("late", ["master.p9-3", "master.late-source"]);
    const last = graphOf([...graph.nodes.flatMap(({ members }) => members), late], NO_FOLDS);
    const { places } = await placed(last);
    expect(places.get("bucket:master.late-source")?.x).toBe(places.get("pipeline:p9-3")?.x);
  });

  test("a circle is drawn with an edge that goes back, from the left of its source to the right of its target", async () => {
    const circle = Array.from({ length: 6 }, (_, step) =>
      pipeline(`step${step}`, [`master.step${(step + 5) % 6}`]),
    );
    const readers = Array.from({ length: 150 }, (_, number) => pipeline(`reader${number}`, ["master.step0"]));
    const { places, edges } = await placed(graphOf([...circle, ...readers], NO_FOLDS));
    const back = edges.filter(({ points }) => (points[0]?.x ?? 0) > (points.at(-1)?.x ?? 0));
    expect(back.map(({ from, to }) => [from, to])).toEqual([["pipeline:step5", "pipeline:step0"]]);
    const ways = (back[0]?.points ?? []).map(({ x }) => x);
    expect(ways).toEqual(ways.toSorted((a, b) => b - a));
    // Out, through four layers, and in.
    expect(ways).toHaveLength(10);
    expect(ways[0]).toBe((places.get("pipeline:step5")?.x ?? 0) - WIDE.nodeWidth / 2);
    expect(ways.at(-1)).toBe((places.get("pipeline:step0")?.x ?? 0) + WIDE.nodeWidth / 2);
  });
});

describe("the editor of specifications", () => {
  /** What is offered where `|` is. */
  function offered(text: string): string[] {
    const place = placeAt(text.replace("|", ""), text.indexOf("|"));
    return place ? offersAt(place).map(({ label }) => label) : [];
  }

  test.each([
    [
      "fields of the whole that are not there yet",
      '{"pipeline": {"name": "a"}, "|"}',
      ["transform", "inputs", "egress"],
    ],
    ["fields of an object in a list", '{"inputs": [{"repo": {"name": "x"}, |}]}', ["glob", "branch", "lazy"]],
    ["a field whose quote has no end", '{"transform": {"im|\n}}', ["image", "cmd"]],
    ["fields behind a value without a comma", '{"pipeline": {"name": "a"} |}', ["transform"]],
    ["the values of a field", '{"onDatumFailure": |}', ['"fail"', '"skip"']],
    [
      "both ways to say how many workers",
      '{"parallelism_spec": {"strategy": |}}',
      ['"CONSTANT"', '"COEFFICIENT"'],
    ],
    ["true and false", '{"inputs": [{"lazy": |}]}', ["true", "false"]],
  ])("offers %s", (_, text, labels) => {
    expect(offered(text)).toEqual(expect.arrayContaining(labels));
  });

  const NESTED = "inputs:\n  - glob: /*\n  - repo:\n      name: ";

  test.each([
    ["a value that is begun", `${NESTED}pho|\n    branch: x\n`, "inputs.1.repo.name", "pho"],
    ["one that is still to come", `${NESTED}|\n    branch: x\n`, "inputs.1.repo.name", ""],
    ["one before which somebody writes", `${NESTED}|x\n`, "inputs.1.repo.name", "x"],
    ["one in quotes", `${NESTED}"p|"\n`, "inputs.1.repo.name", '"p"'],
    ["one in brackets", "inputs: [{ glob: / }, { repo: { name: pho| } }]", "inputs.1.repo.name", "pho"],
    [
      "one in brackets and quotes that have no end",
      "inputs: [{ repo: { name: 'ph|",
      "inputs.0.repo.name",
      "'ph",
    ],
    ["one of a name in quotes", "'inputs':\n- 'branch': |", "inputs.0.branch", ""],
    ["one of the whole", "onDatumFailure: |\n", "onDatumFailure", ""],
  ])("knows the place in YAML of %s", (_, text, path, written) => {
    const whole = text.replace("|", "");
    const place = valuePlaceAt(whole, text.indexOf("|"));
    expect(place?.path.join(".")).toBe(path);
    expect(whole.slice(place?.from, place?.to)).toBe(written);
  });

  test.each([
    "inp|",
    `${NESTED.trimEnd()}|`,
    `${NESTED}# |`,
    `${NESTED}x |`,
    "a: b\n|c: d",
    "inputs:\n|",
  ])("offers nothing in YAML where no value is written: %j", (text) => {
    expect(valuePlaceAt(text.replace("|", ""), text.indexOf("|"))).toBeUndefined();
  });

  test("spells what is offered in YAML with the quotes that it needs, or that are there", () => {
    const spelled = (label: string, written: string) =>
      inYaml(
        { label, text: `${label}^`, detail: "", info: undefined, isRequired: false },
        { before: "", written },
      ).text;
    expect(spelled('"photos"', "pho")).toBe("photos^");
    expect(spelled('"photos"', '"pho')).toBe('"photos"^');
    expect(spelled('"photos"', "'pho")).toBe("'photos'^");
    expect(spelled('"1"', "")).toBe('"1"^');
    expect(spelled("true", "")).toBe("true^");
  });

  /** The names that are offered in YAML where `|` is, with what is written for each. */
  function namesInYaml(marked: string): Record<string, string> {
    const text = marked.replace("|", "");
    const place = namePlaceAt(text, marked.indexOf("|"));
    if (!place) return {};
    const around = { before: text.slice(0, place.from), written: text.slice(place.from, place.to) };
    return Object.fromEntries(
      offersAt(place).map((offer) => [offer.label, inYaml(offer, around).text] as const),
    );
  }

  test.each([
    ["of the whole that is begun", "pipe|", ["pipeline", "transform", "inputs", "$schema"], []],
    [
      "of the whole, at its end",
      "pipeline: { name: a }\ninputs: []\n|",
      ["transform"],
      ["pipeline", "inputs"],
    ],
    ["before others", "|\npipeline: { name: a }\n", ["transform"], ["pipeline"]],
    [
      "between others",
      "pipeline:\n  name: a\n|\ntransform:\n  image: x\n",
      ["inputs"],
      ["pipeline", "transform"],
    ],
    ["of an object with nothing in it", "transform:\n  |", ["image", "cmd"], ["pipeline"]],
    [
      "of one with something in it",
      "transform:\n  image: x\n  |\ninputs: []\n",
      ["cmd"],
      ["image", "inputs"],
    ],
    ["of one that is begun", "transform:\n  image: x\n  cm|\n  env: {}\n", ["cmd"], ["image", "env"]],
    ["of an object in a list", "inputs:\n  - |", ["repo", "glob", "branch"], ["inputs"]],
    ["of one that is begun, in a list", "inputs:\n- gl|", ["glob", "repo"], []],
    [
      "of the second line of one",
      "inputs:\n  - glob: /\n    |\n    lazy: true\n",
      ["repo"],
      ["glob", "lazy"],
    ],
    ["of the second one", "inputs:\n  - glob: /\n  - |", ["glob", "repo"], []],
    ["deep in a list", "inputs:\n  - glob: /\n    repo:\n      na|", ["name"], ["glob"]],
    ["in braces", "inputs:\n  - repo: { | }\n", ["name"], ["glob"]],
    ["in braces without an end", "inputs: [{ glob: /, |", ["repo"], ["glob", "inputs"]],
    ["in braces over lines", "inputs: [\n  {\n    glob: /,\n    re|\n  }\n]\n", ["repo"], ["glob"]],
    ["that has its value", "transform:\n  im|: x\n  cmd: []\n", ["image", "env"], ["cmd"]],
    ["behind a text that ends with a comma", "description: in short,\ntr|", ["transform"], ["description"]],
    ["behind a comment", "transform: # what runs\n  # in\n  |", ["image"], []],
    [
      "of both ways to say how many workers",
      "parallelism_spec:\n  |",
      ["strategy", "constant", "coefficient"],
      [],
    ],
  ])("offers the names in YAML %s", (_, text, offers, lacks) => {
    const names = Object.keys(namesInYaml(text));
    expect(names).toEqual(expect.arrayContaining(offers));
    expect(names.filter((name) => lacks.includes(name))).toEqual([]);
    expect(new Set(names).size).toBe(names.length);
  });

  test.each([
    ["a value", "transform:\n  image: im|"],
    ["what is too far to the right", "transform:\n  image: x\n      |"],
    ["what is between an object and its list", "inputs:\n  - glob: /\n  |"],
    ["a list", "inputs:\n  |"],
    ["a list in brackets", "inputs: [|]"],
    ["a list in brackets, behind what it has", "inputs: [{ glob: / }, | ]"],
    ["names of one's own", "transform:\n  env:\n    |"],
    ["a list of words", "transform:\n  cmd:\n    - |"],
    ["a comment", "# pipe|"],
    ["a text over lines", "description: >\n  pipe|"],
    ["a text in quotes over lines", 'description: "a\n  pipe|"'],
    ["what nobody knows", "other:\n  |"],
    ["a dash without a space", "inputs:\n  -|"],
    ["a word that goes on", "pipe|-line"],
  ])("offers no name in YAML for %s", (_, text) => {
    expect(namesInYaml(text)).toEqual({});
  });

  test("writes a name in YAML with its colon, and what is inside of it in lines of its own", () => {
    const top = namesInYaml("pi|");
    expect(top.pipeline).toBe("pipeline:\n  ^");
    expect(top.inputs).toBe("inputs:\n  - ^");
    expect(top.description).toBe("description: ^");
    expect(top.datumTries).toBe("datumTries: 3^");
    expect(top.onDatumFailure).toBe("onDatumFailure: fail^");
    expect(namesInYaml("inputs:\n  - |").repo).toBe("repo:\n      ^");
    expect(namesInYaml("transform:\n  |").cmd).toBe("cmd:\n    - ^");
    const inBraces = namesInYaml("inputs: [{ | }]");
    expect(inBraces.repo).toBe("repo: { ^ }");
    expect(inBraces.branch).toBe("branch: master^");
    expect(namesInYaml("transform: { |").cmd).toBe("cmd: [^]");
    expect(namesInYaml("tr|: {}\n").transform).toBe("transform^");
  });

  test("offers no field twice, none that is unknown, and nothing outside", () => {
    expect(offered('{"pipeline": {}, "|": 1, "transform": {}}')).not.toContain("transform");
    expect(offered('{"transform": {"env": {"|"}}}')).toEqual([]);
    expect(offered("|")).toEqual([]);
  });

  test("writes a field with a value of its type, and only its name where a value follows", () => {
    const texts = (text: string, label: string): string | undefined => {
      const place = placeAt(text.replace("|", ""), text.indexOf("|"));
      return place && offersAt(place).find((offer) => offer.label === label)?.text;
    };
    expect(texts("{|}", "inputs")).toBe('"inputs": [^]');
    expect(texts("{|}", "datumTries")).toBe('"datumTries": 3^');
    expect(texts('{"|": {}}', "transform")).toBe('"transform"^');
  });

  const SPEC = '{"pipeline": {"name": "a b"},\n "inputs": [{"glob": ""}, {"repo": {}}]}';

  test.each([
    ["pipeline.name", '"a b"'],
    ["inputs[0].glob", '""'],
    ["inputs[0].repo.name", "{"],
    ["inputs[1].repo.name", '"repo"'],
    ["inputs[1].repo", '"repo"'],
    ["inputs[7].glob", '"inputs"'],
    ["transform", "{"],
    ["", "{"],
  ])("marks a problem at %s where it is: at %s", (path, marked) => {
    const { from, to } = rangeOf(SPEC, path);
    expect(SPEC.slice(from, to)).toBe(marked);
  });

  test("marks the element that lacks something, and not the one before it", () => {
    const { from } = rangeOf(SPEC, "inputs[1].glob");
    expect(SPEC.slice(from)).toBe('{"repo": {}}]}');
  });
});

describe("a command line that is copied", () => {
  const HOSTILE = [
    ";touch x",
    "$(touch x)",
    "`touch x`",
    "a b",
    "it's",
    "*",
    "",
    "~",
    "a\\",
    "é ü",
    // Ends what a terminal takes for pasted.
    "\u001b[201~\ntouch x\n",
    "\u009b201~ it's \\",
  ];
  test.each(HOSTILE)("has one word for %j, of which a shell makes nothing else", (word) => {
    const { text } = command`printf %s. ${word} s3://${word}/x`;
    expect(text).not.toMatch(/[\0-\x1f\x7f-\x9f]/);
    expect(execFileSync("bash", ["-c", text], { encoding: "utf8" })).toBe(`${word}.s3://${word}/x.`);
  });

  test("takes words of another line as they are", () => {
    const options = [command`--repo ${"a b"}`, command`--all`];
    expect(command`sluice x ${options}${command` -f`}${[]}`.text).toBe("sluice x --repo 'a b' --all -f");
  });
});

describe("a specification that is written in YAML", () => {
  const text = [
    "# thumbnails of the camera",
    "pipeline: { name: edges }",
    "datumTries: 0",
    "inputs:",
    "  - glob: /*",
    "    repo:",
    "      name: photo",
    "",
  ].join("\n");

  test("comes to what it says, or to the place where it is no YAML", () => {
    expect(languageOf(text)).toBe("yaml");
    expect(readWritten(text)).toEqual({
      ok: true,
      spec: {
        pipeline: { name: "edges" },
        datumTries: 0,
        inputs: [{ glob: "/*", repo: { name: "photo" } }],
      },
    });
    const broken = "a: 1\nb: [2\nc: 3\n";
    const read = readWritten(broken);
    if (read.ok) throw new Error("it was read");
    expect(read.issue.message).toMatch(/^it is not YAML: line \d+, column \d+: /);
    const { from } = finderIn(broken)(read.issue);
    expect(from).toBeGreaterThan(broken.indexOf("["));
    const two = "a: 1\n---\nb: 2\n";
    const several = readWritten(two);
    expect(several).toMatchObject({ ok: false, issue: { message: "another document begins at line 2" } });
    expect(!several.ok && two.slice(finderIn(two)(several.issue).from)).toMatch(/^---/);
  });

  test("has its problems where they are: at the value, or the innermost name around it", () => {
    const placeOf = finderIn(text);
    const at = (path: string): string => {
      const { from, to } = placeOf({ path, message: "wrong" });
      return text.slice(from, to);
    };
    expect(at("datumTries")).toBe("0");
    expect(at("inputs[0].repo.name")).toBe("photo");
    expect(at("inputs[0].repo.branch")).toBe("repo");
    expect(at("transform.cmd")).toBe("#");
  });

  test("is what an update begins with; a text that can't be edited is the specification as JSON", () => {
    const spec = { pipeline: { name: "edges" } };
    expect(editable(spec, text)).toBe(text);
    expect(editable(spec, '{"pipeline":{"name":"edges"}}')).toBe('{"pipeline":{"name":"edges"}}');
    for (const other of [undefined, "{ pipeline: { name: edges } }"])
      expect(JSON.parse(editable(spec, other))).toEqual(spec);
  });
});
