import { type Figure, isMet, score, scores, type Target } from "./figure.ts";
import { median } from "./stats.ts";

const HEADINGS = ["what", "sluice", "against", "score", "spread", "target", ""];

/** The figures as a table for a terminal. */
export function table(figures: readonly Figure[]): string {
  const lines = [HEADINGS, ...figures.map(cells)];
  const widths = HEADINGS.map((_, column) => Math.max(...lines.map((line) => (line[column] ?? "").length)));
  return lines
    .map((line) =>
      line
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join("  ")
        .trimEnd(),
    )
    .join("\n");
}

function cells(figure: Figure): string[] {
  const all = scores(figure);
  const show = showIn(figure);
  return [
    figure.what,
    ...sides(figure),
    show(score(figure)),
    `${show(Math.min(...all))} … ${show(Math.max(...all))}`,
    wish(figure),
    VERDICTS[String(isMet(figure))] ?? "",
  ];
}

const VERDICTS: Readonly<Record<string, string>> = { true: "met", false: "MISSED" };

/** What was measured: ours, and what it is held against. */
function sides(figure: Figure): [string, string] {
  const { unit } = figure;
  if (figure.compare === "nothing") return [`${significant(median(figure.values))} ${unit}`, "–"];
  const { pairs, against } = figure;
  return [
    `${significant(median(pairs.map(({ ours }) => ours)))} ${unit}`,
    `${significant(median(pairs.map(({ other }) => other)))} ${unit} (${against})`,
  ];
}

function showIn({ compare, unit }: Figure): (value: number) => string {
  switch (compare) {
    case "ratio":
      return (value) => `${significant(value)}×`;
    case "difference":
      return (value) => `${value.toFixed(0)} ${unit}`;
    case "nothing":
      return (value) => `${significant(value)} ${unit}`;
  }
}

function wish({ target, compare, unit }: Figure): string {
  if (target === null) return "–";
  switch (compare) {
    case "ratio":
      return `${bound(target)}×`;
    case "difference":
      return `${bound(target)} ${unit} more`;
    case "nothing":
      return `${bound(target)} ${unit}`;
  }
}

function bound(target: Target): string {
  return "atLeast" in target ? `≥ ${target.atLeast}` : `≤ ${target.atMost}`;
}

/** Three significant digits, never as a power of ten. */
function significant(value: number): string {
  return value >= 100 ? value.toFixed(0) : String(Number(value.toPrecision(3)));
}
