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
  const { pairs, unit, against, compare, target } = figure;
  const all = scores(figure);
  const show = (value: number): string =>
    compare === "ratio" ? `${significant(value)}×` : `${value.toFixed(0)} MiB`;
  return [
    figure.what,
    `${significant(median(pairs.map(({ ours }) => ours)))} ${unit}`,
    `${significant(median(pairs.map(({ other }) => other)))} ${unit} (${against})`,
    show(score(figure)),
    `${show(Math.min(...all))} … ${show(Math.max(...all))}`,
    `${bound(target)} ${compare === "ratio" ? "×" : "MiB more"}`.replace(" ×", "×"),
    isMet(figure) ? "met" : "MISSED",
  ];
}

function bound(target: Target): string {
  return "atLeast" in target ? `≥ ${target.atLeast}` : `≤ ${target.atMost}`;
}

/** Three significant digits, never as a power of ten. */
function significant(value: number): string {
  return value >= 100 ? value.toFixed(0) : String(Number(value.toPrecision(3)));
}
