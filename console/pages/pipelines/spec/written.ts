import { jsonLanguage } from "@codemirror/lang-json";
import { isMap, isNode, isScalar, isSeq, parseDocument } from "yaml";
import type { Issue } from "../../../../protocol/errors.ts";
import { readYaml, specTextFault } from "../../../../protocol/spec-text.ts";
import { isJson, languageOf } from "./language.ts";
import { type Range, rangeOf, stepsOf } from "./place.ts";

/*
 * A specification as somebody writes it, in JSON or in YAML: what it comes to, and where in it a problem is.
 */

const NOT_JSON = "from here on it is not JSON: a comma, a quote or a bracket is missing, or is too many";

type Read = { readonly ok: true; readonly spec: unknown } | { readonly ok: false; readonly issue: Issue };

/** The specification that is written, or why it is none. */
export function readWritten(text: string): Read {
  if (languageOf(text) === "json") {
    return isJson(text)
      ? { ok: true, spec: JSON.parse(text) }
      : { ok: false, issue: { path: "", message: NOT_JSON } };
  }
  const read = readYaml(text);
  if (read.ok) return { ok: true, spec: read.value };
  const why =
    read.fault === "not-yaml"
      ? `it is not YAML: ${read.why}`
      : `another document begins at line ${read.line}`;
  return { ok: false, issue: { path: "", message: why } };
}

/** What a submission sends: with the text, unless that is too long to be kept. */
export function bodyOf(text: string, spec: unknown): { readonly text: boolean; readonly json: unknown } {
  return specTextFault(text) === undefined
    ? { text: true, json: { spec, text } }
    : { text: false, json: spec };
}

/** Says where problems of a text are. */
export function finderIn(text: string): (issue: Issue) => Range {
  if (languageOf(text) === "json") {
    return ({ path, message }) => (message === NOT_JSON ? firstFault(text) : rangeOf(text, path));
  }
  const { contents } = parseDocument(text, { logLevel: "silent" });
  return ({ path, message }) => {
    const [, line, column = "1"] = /\bline (\d+)(?:, column (\d+))?/.exec(message) ?? [];
    return path === "" && line !== undefined
      ? characterAt(text, { line: Number(line), column: Number(column) })
      : yamlRange(contents, stepsOf(path), text);
  };
}

function firstFault(text: string): Range {
  let from = text.length;
  jsonLanguage.parser.parse(text).iterate({
    enter({ type, from: begin }) {
      if (type.isError) from = Math.min(from, begin);
    },
  });
  return { from, to: Math.min(text.length, from + 1) };
}

/** `line` and `column` count from 1. */
function characterAt(text: string, { line, column }: { line: number; column: number }): Range {
  const before = text.split("\n").slice(0, line - 1);
  const from = Math.min(text.length, before.join("\n").length + Math.min(1, before.length) + column - 1);
  return { from, to: Math.min(text.length, from + 1) };
}

/** As `rangeOf` has it for JSON: the value, or the name of the innermost one around it that is there. */
function yamlRange(root: unknown, steps: readonly (string | number)[], text: string): Range {
  let best: Range = { from: 0, to: Math.min(1, text.length) };
  let node = root;
  for (const step of steps) {
    const pair = isMap(node) ? node.items.find(({ key }) => isScalar(key) && key.value === step) : undefined;
    const item = isSeq(node) && typeof step === "number" ? node.items[step] : undefined;
    const next = pair ? pair.value : item;
    const named = isScalar(next) || !pair ? next : pair.key;
    if (!isNode(named) || !named.range) return best;
    const [from, to] = named.range;
    best = { from, to: isScalar(named) ? to : Math.min(to, from + 1) };
    node = next;
  }
  return best;
}
