import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { ROOT } from "../../support/dev-server.ts";

const WAKE = /\bwake\("/;
/** A function begins, or a method: of a class, or of a table of calls, in which all are asynchronous. */
const FUNCTION = /^(?:export )?(?:async )?function (\w+)[(<]/;
const METHOD = /^ {2}(?:protected |override |async )*(#?\w+)\(/;
/** A function in a function. */
const INNER = /^ {2}function (\w+)\(/;
const CALL = /^ {2}async (\w+)\(/;
const CLASS = /^export (?:abstract )?class (\w+)/;

test.each([
  "branch",
  "pipeline",
])("each place of a %s that wakes a loop has a scenario that needs it, or a reason why none does", (kind) => {
  const folder = join(ROOT, "worker", kind);
  const places = sources(folder).flatMap((path) => placesIn(readFileSync(path, "utf8")));
  const tests = sources(join(ROOT, "test/worker", kind)).filter((path) =>
    /(each-loop|wakes)\.test\.ts$/.test(path),
  );
  const named = tests.map((path) => readFileSync(path, "utf8")).join("\n");
  expect(places.length).toBeGreaterThan(10);
  expect([...new Set(places)].filter((place) => !isNamed(place, named)).sort()).toEqual([]);
});

/** As a text, or in a list of reasons. */
function isNamed(place: string, text: string): boolean {
  return [`"${place}"`, ` ${place}:`].some((name) => text.includes(name));
}

function sources(folder: string): string[] {
  return readdirSync(folder, { recursive: true, encoding: "utf8" })
    .filter((path) => path.endsWith(".ts"))
    .map((path) => join(folder, path));
}

/** The functions of a file that wake a loop, as a stack names them. */
function placesIn(text: string): string[] {
  const places: string[] = [];
  let ofClass = "";
  let place = "";
  for (const line of text.split("\n")) {
    ofClass = CLASS.exec(line)?.[1] ?? (line === "}" ? "" : ofClass);
    const name = (FUNCTION.exec(line) ?? INNER.exec(line))?.[1];
    const method = (ofClass === "" ? CALL : METHOD).exec(line)?.[1];
    place = name ?? (method && placeOf(ofClass, method)) ?? place;
    if (WAKE.test(line)) places.push(place);
  }
  return places;
}

/** A stack has no class for what is private, nor for what is no method of one. */
function placeOf(ofClass: string, method: string): string {
  return ofClass === "" || method.startsWith("#") ? method : `${ofClass}.${method}`;
}
